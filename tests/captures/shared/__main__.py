"""`python -m tests.captures.shared NAME...`: what a capture's facts would say, to be checked.

It prints the counts and the rows that differ; why they do is for a person to find out.
"""

from __future__ import annotations

import sys
from collections import Counter

from facility.points import flaw_of, grade_of
from tests.captures.shared.reading import STATED, looked, rows

for name in (word for word in sys.argv[1:] if word != "--all"):
    seen = looked(name)
    if seen is None:
        sys.stdout.write(f"{name}:\n  profile: null\n")
        continue
    read = Counter(row.sensor for row in rows(name) if row.oid in seen.by_oid)
    every = Counter(row.sensor for row in rows(name))
    left = {sensor: f"{n - read[sensor]} rows" for sensor, n in every.items() if n > read[sensor]}
    out = [f"{name}:", f"  profile: {seen.profile.profile}", f"  reads: {dict(read)}"]
    out += [f"  leaves: {left}", f"  checks: {len(seen.checks)}"]
    out += [f"  # BAD {c.check}, {c.part}: {c.detail}" for c in seen.checks if not c.ok]
    for row in rows(name):
        told = seen.by_oid.get(row.oid, ())
        for spec, decoded in told:
            value = decoded.value * STATED.get(row.sensor, 1.0)
            flaw = flaw_of(decoded.quality).name if grade_of(decoded.quality) else ""
            out.append(
                f"  # {spec.id.part}:{spec.id.kind} {value:g} {flaw} raw {decoded.raw};"
                f" there {row.expected:g} {row.sensor}"
            )
        if not told:
            out.append(f"  # not read: {row.oid} {row.sensor} raw {row.raw} -> {row.expected:g}")
    for spec, point, decoded in seen.readings:
        flaw = flaw_of(decoded.quality).name if grade_of(decoded.quality) else ""
        if point is not None and "--all" in sys.argv:
            out.append(f"  # {spec.id.part}:{spec.id.kind} {decoded.value:g} {flaw} {decoded.raw}")
    sys.stdout.write("\n".join(out) + "\n")
