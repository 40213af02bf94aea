"""Why a reading is none, for people: one wording for the page, alarms, logs and health. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from facility.points import Flaw

#: what happened, as the end of a sentence
WORDS: Final[Mapping[Flaw, str]] = {
    Flaw.NONE: "nothing is wrong",
    Flaw.TIMEOUT: "no answer",
    Flaw.REFUSED: "it answers, but has no such values",
    Flaw.UNDECODABLE: "what it answers makes no sense",
    Flaw.SENTINEL: "it says that it has no value",
    Flaw.DEVICE_FAULT: "it answers with a fault of its own",
    Flaw.STALE: "nothing new for too long, or reported gone",
    Flaw.RETAINED: "only what the broker kept is known",
    Flaw.SUBSTITUTED: "another source or device than the file means",
    Flaw.CLOCK_SKEW: "its clock is wrong, or the value is old",
    Flaw.IMPLAUSIBLE: "outside what is plausible",
    Flaw.FROZEN: "it stands still while its neighbours move",
    Flaw.INCONSISTENT: "it contradicts the device's other readings",
}
_LINK: Final = "Check its link and its supply"
_PROFILE: Final = "Check its profile, firmware and login"
#: what to look at first when a device gives nothing for this reason
ADVICE: Final[Mapping[Flaw, str]] = {
    Flaw.REFUSED: _PROFILE,
    Flaw.UNDECODABLE: _PROFILE,
    Flaw.DEVICE_FAULT: "Look at the device itself",
}


def words_for(flaw: Flaw) -> str:
    """What happened."""
    return WORDS[flaw]


def advice_for(flaw: Flaw) -> str:
    """What to look at first."""
    return ADVICE.get(flaw, _LINK)
