"""The captures of real devices that WATTKEEPER_CAPTURES names, read by the profile that knows each.

The captures are under the GPL and never enter this repository; `facts/*.yaml` says of each what
we hold to be true: the profile, how much of it is read, where the test data's own opinion is wrong
and why, and numbers checked by hand. A fact is a fact whoever states it.
"""
