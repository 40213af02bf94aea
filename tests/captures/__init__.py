"""Our own minimal captures: the places that a profile names, with invented values.

Every JSON file here is a test: what the profile makes of its raws must be its readings. The raws
were written by hand from the register maps, not by our own encoder.
"""
