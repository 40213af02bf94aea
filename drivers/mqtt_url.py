"""Addresses of MQTT brokers, without a client library."""

from __future__ import annotations

from urllib.parse import urlsplit


def split_url(url: str) -> tuple[str, int, bool]:
    """Host, port and whether TLS is used, of `mqtt://host[:port]` or `mqtts://host[:port]`.

    Raises:
        ValueError: another scheme, no host, a user or a password in the address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise ValueError(f"{url!r} is not mqtt://host[:port] or mqtts://host[:port]")
    if parts.username is not None or parts.password is not None or parts.path not in ("", "/"):
        raise ValueError("a broker's address is host and port; logins are given apart from it")
    secure = parts.scheme == "mqtts"
    return parts.hostname, parts.port or (8883 if secure else 1883), secure
