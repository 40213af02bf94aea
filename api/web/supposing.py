"""What the what-if page says of a study with elements failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from api.picture import by_name, number
from controllers.wording import lacking, listed, room_left


def dark_racks(study: Mapping[str, Any]) -> list[str]:
    """Racks that are without power in the normal case of a study."""
    rows = by_name(study.get("racks"), "rack")
    return [rack for rack, row in rows.items() if "normal" in (row.get("down_in") or ())]


def what_if_answer(fail: Sequence[str], study: Mapping[str, Any]) -> str:
    """The answer to "what if these fail": what goes dark first, then what is left."""
    names = " and ".join(fail)
    start = f"If {names} {'fail' if len(fail) > 1 else 'fails'}, "
    dark, rows = dark_racks(study), by_name(study.get("racks"), "rack")
    if dark:
        racks_go = "1 rack goes" if len(dark) == 1 else f"{len(dark)} racks go"
        start += f"{racks_go} dark at once: {listed(dark)}."
        if len(dark) == len(rows):
            return start
        return f"{start} {_of_the_rest(study, dark)}"
    return start + _of_the_rest(study, dark)


def _of_the_rest(study: Mapping[str, Any], dark: Sequence[str]) -> str:
    """What the racks that stay on have left; begins a sentence after dark racks, else goes on."""
    binding = study.get("binding") or {}
    left_w = number(binding.get("headroom_w"))
    element, case = binding.get("element"), str(binding.get("case"))
    if left_w is None:
        text = "no rated element is left to judge by."
    elif study.get("ok"):
        text = f"{_further(study, dark)} Tightest: {element}, {case}, {room_left(left_w)} left."
    elif case == "normal":
        text = f"{element} is overloaded by {lacking(-left_w)} at once."
    else:
        text = (
            f"the hall runs on without redundancy: {case} on top would overload {element} by "
            f"{lacking(-left_w)}."
        )
    return text[:1].upper() + text[1:] if dark and not text.startswith(str(element)) else text


def _further(study: Mapping[str, Any], dark: Sequence[str]) -> str:
    """Whether one more loss can be borne by the racks that have more than one feed."""
    at_risk = [
        rack
        for rack, row in by_name(study.get("racks"), "rack").items()
        if rack not in dark and row.get("down_in") and row.get("single_fed") is not True
    ]
    if not at_risk:
        return "any further single loss is survivable" + (" by the rest." if dark else ".")
    racks_go = "1 rack goes" if len(at_risk) == 1 else f"{len(at_risk)} racks go"
    return f"nothing is overloaded, but {racks_go} dark with one further loss: {listed(at_risk)}."
