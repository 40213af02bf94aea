"""Every flaw has words of the field, so that no page ever says "refused" and leaves it there."""

from __future__ import annotations

import pytest

from facility.flaw_words import advice_for, words_for
from facility.points import Flaw


@pytest.mark.parametrize("flaw", list(Flaw))
def test_every_flaw_has_words_and_no_two_the_same(flaw: Flaw) -> None:
    assert words_for(flaw)
    assert [f for f in Flaw if words_for(f) == words_for(flaw)] == [flaw]


@pytest.mark.parametrize(
    ("flaw", "look_at"),
    [
        (Flaw.TIMEOUT, "link"),
        (Flaw.STALE, "link"),
        (Flaw.REFUSED, "profile"),
        (Flaw.UNDECODABLE, "profile"),
        (Flaw.DEVICE_FAULT, "device itself"),
    ],
)
def test_the_advice_is_for_what_happened(flaw: Flaw, look_at: str) -> None:
    assert look_at in advice_for(flaw)
