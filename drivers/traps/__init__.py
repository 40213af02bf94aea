"""Traps and informs: a device says that something happened, and we look sooner.

What a trap says is never acted upon. It comes over UDP, from an address that anybody can write on
an envelope, and is protected at best by a community in clear text. It wakes a poll.
"""
