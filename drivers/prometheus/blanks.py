"""Numbers by which an exporter means that there is no number.

DCGM keeps one blank value per width (dcgm_structs.h): 0x7ffffff0 for 32-bit and
0x7ffffffffffffff0 for 64-bit integers, 2^47 for doubles, and each plus 1, 2, 3 for not found, not
supported, no permission. Its own rule is "at or above". dcgm-exporter lets them through where a
field's width is not the expected one (9223372036854775794 stands in its README), so each width is
looked for in every field but those that count in 64 bits.
"""

from __future__ import annotations

from typing import Final

INT32: Final = 0x7FFFFFF0
INT32_MOST: Final = 0x7FFFFFFF
FP64: Final = 2.0**47
#: as a double, which has no bits for the last four
INT64: Final = float(0x7FFFFFFFFFFFFFF0)


def is_blank(rule: str | None, number: float) -> bool:
    """Whether a number means "no value".

    Args:
        rule: `dcgm` for readings; `dcgm_int64` for counters of 64 bits, which pass through every
            smaller number; None where all numbers are numbers.
        number: as it stands on the page.
    """
    if rule == "dcgm":
        return number >= FP64 or INT32 <= number <= INT32_MOST
    if rule == "dcgm_int64":
        return number >= INT64 or FP64 <= number <= FP64 + 3.0
    return False
