"""Studies as text for people: aligned columns, watts in kW, what is unknown as a dash."""

from __future__ import annotations

from collections.abc import Sequence

from controllers.allocation import Plan, worth_saying
from controllers.headroom import Headroom, sentence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns wide enough for their contents: numbers flush right, words flush left."""
    columns = list(zip(head, *rows, strict=True))
    padded = []
    for column in columns:
        width = max(map(len, column))
        numbers = all(cell == "-" or cell[-1:].isdigit() for cell in column[1:])
        numbers = numbers and all(cell[:1] in "-0123456789" for cell in column[1:])
        padded.append([cell.rjust(width) if numbers else cell.ljust(width) for cell in column])
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*padded, strict=True))


def _kw(watts: float | None) -> str:
    return "-" if watts is None else f"{watts / 1000.0:.1f}"


def headroom_text(answer: Headroom) -> str:
    """The study as a sentence and three tables."""
    document = answer.to_json()
    elements = [
        [
            e["element"],
            e["kind"],
            _kw(e["limit_w"]),
            _kw(e["normal_w"]),
            _kw(e["worst_w"]),
            _kw(e["headroom_w"]),
            e["worst_case"] or "never alive",
        ]
        for e in document["elements"]
    ]
    racks = [
        [r["rack"], _kw(r["load_w"]), _kw(r["headroom_w"]), _remark(r)] for r in document["racks"]
    ]
    parts = [
        sentence(answer),
        f"{document['cases']} cases; kW:",
        table(["element", "kind", "limit", "normal", "worst", "headroom", "worst case"], elements),
        table(["rack", "load", "headroom", "remark"], racks),
    ]
    others = [
        [x["load"], _kw(x["load_w"]), ", ".join(x["down_in"]) or "-"] for x in document["loads"]
    ]
    if others:
        parts.append(table(["load", "load kW", "down in"], others))
    return "\n\n".join(parts)


def _remark(rack: dict[str, object]) -> str:
    down = rack["down_in"]
    if isinstance(down, list) and "normal" in down:
        return "dark now"
    if rack["single_fed"]:
        return "one feed only"
    shared = rack["shared"]
    if isinstance(shared, list) and shared:
        return f"goes dark with {', '.join(shared)}"
    return f"down after {down[0]}" if isinstance(down, list) and down else "-"


def allocation_text(plan: Plan, answer: Headroom, seconds: float) -> str:
    """The plan as a verdict, caps with reasons, and what limits are worth."""
    if plan.missing is not None:
        m = plan.missing
        where = "in the normal case" if m.case == "normal" else f"after {m.case}"
        verdict = (
            f"No plan fits: {m.element} {where} lacks {m.kw:.1f} kW with every node at its floor. "
            f"To fix it: {m.would_fix}. Below are the floors."
        )
    else:
        verdict = (
            f"A plan fits (policy {plan.policy}): {plan.tokens_per_s:.0f} tok/s, "
            f"found in {seconds:.2f} s."
        )
    nodes = [
        [
            n.node,
            f"{n.cap_w:.1f}",
            f"{n.fallback_w:.1f}",
            "-" if n.tokens_per_s is None else f"{n.tokens_per_s:.0f}",
            n.because,
        ]
        for n in plan.nodes
    ]
    parts = [
        verdict,
        table(["node", "cap W/GPU", "fallback W/GPU", "tok/s", "because"], nodes),
    ]
    if plan.prices:
        document = plan.to_json()
        prices = [
            [where, case, f"{gained:.1f}"]
            for where, case, gained in worth_saying(document["prices"], document["together"])
        ]
        parts.append(table(["one more kW on", "case", "tok/s"], prices))
    return "\n\n".join([*parts, headroom_text(answer)])
