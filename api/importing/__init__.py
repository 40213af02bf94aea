"""Ways in: what other systems know of a hall, as lines of a facility file.

A source (CSV tables, NetBox) becomes `Entry`s; `merging` puts them between two marks in the file
and leaves every other line as it is. Nothing is guessed: what a source does not say is a problem
with the place and the rule that would answer it, and then nothing is written.
"""
