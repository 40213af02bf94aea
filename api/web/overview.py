"""What the overview says: every sentence and number of it, worked out from the hall.

No HTML here and no state; the templates only place what this returns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo

from api.hall import Hall
from api.picture import (
    action,
    element_rows,
    fact,
    loops,
    mode_of,
    number,
    racks,
    scopes,
    sentence,
    trust,
)
from api.routes.health import late_after_s
from api.web.charts import spark
from api.web.troubled import troubled
from api.web.wording import (
    MODES,
    cap,
    decimal,
    moment,
    per_watt,
    point_value,
    power,
    scope_name,
    share,
)
from api.web.works import banner
from controllers.allocation import worth_saying
from controllers.wording import capital
from facility.commands import AlarmEvent, Decision, Mode, Severity
from facility.kinds import KINDS
from facility.store.records import AlarmRecord

RACKS_SHOWN: Final = 100
ELEMENTS_SHOWN: Final = 100
WITHHELD_SHOWN: Final = 2


def top(hall: Hall) -> dict[str, Any]:
    """The sentence, how it stands, since when, and what the reader must know beside it."""
    text, state = sentence(hall)
    status, decision = hall.status(), hall.decision()
    age_s = status.cycle_age_s
    notes = []
    if status.database is not None:
        notes.append("The database does not answer: history waits, control goes on from memory.")
    if status.remote is not None and status.remote.error is not None:
        waits = " Samples wait on the disk." if status.remote.waiting_bytes else ""
        notes.append(f"Remote-write: {status.remote.error}.{waits}")
    if status.epoch is None and decision is not None:
        notes.append("Another controller holds this hall; this one only looks.")
    if not hall.facility.control.enabled:
        notes.append("The facility file does not enable control: nothing is written.")
    notes += _lost_and_missing(decision, text)
    lost = [a for a in hall.feed.active_alarms() if a.kind == "redundancy_lost"]
    standing = ""
    if state == "bad" and lost:
        zone = ZoneInfo(hall.facility.site.timezone)
        standing = f"Since {moment(min(a.at_ms for a in lost), zone)}."
    return {
        "text": text,
        "state": state,
        "at_ms": decision.now_ms if decision is not None else None,
        "age_s": age_s,
        "late": age_s is not None and age_s > late_after_s(hall) / 2.0,
        "standing": standing,
        "notes": notes,
        "works": banner(hall),
    }


def _lost_and_missing(decision: Decision | None, said: str) -> list[str]:
    """What is known to be lost now, and what stops any plan from fitting, unless it is `said`."""
    notes = []
    losses = fact(decision, "losses")
    if losses.get("lost") and fact(decision, "headroom").get("ok") is not True:
        notes.append(f"Lost now: {', '.join(str(name) for name in losses['lost'])}.")
    if losses.get("suspected"):
        names = ", ".join(str(name) for name in losses["suspected"])
        notes.append(f"Perhaps lost, on one sign only: {names}.")
    missing = fact(decision, "allocation").get("missing")
    if "No caps fit" in said or not isinstance(missing, Mapping):
        return notes
    if (kw := number(missing.get("kw"))) is not None:
        where = f"{missing.get('element')}, {missing.get('case')}"
        fix = capital(str(missing.get("would_fix") or ""))
        notes.append(f"No caps fit: {where} lacks {power(kw * 1e3)}. {fix}".rstrip())
    return notes


def worth(hall: Hall) -> str:
    """What one more kilowatt would buy where it is scarcest; empty where nothing binds."""
    found = fact(hall.decision(), "allocation")
    prices = found.get("prices") or ()
    said = worth_saying(prices, found.get("together") or ())
    best = max(said, key=lambda row: row[2], default=None)
    if best is None or not best[2]:
        return ""
    where, case, tokens_per_s = best
    where = where if where.endswith(" each") else f"{where} ({case})"
    return f" One more kW on {where} is worth {decimal(tokens_per_s, 0, 'tok/s')}."


def control(hall: Hall) -> list[dict[str, Any]]:
    """Who acts: the hall, and every narrower scope that differs from it."""
    hall_mode = mode_of(hall, "hall")
    usual = Mode(hall.facility.control.mode)
    rows = []
    for scope in scopes(hall):
        mode = mode_of(hall, scope)
        if scope == "hall" or mode is not hall_mode:
            name, meaning = MODES[mode]
            changed = mode is not (usual if scope == "hall" else hall_mode)
            row = {"scope": scope_name(scope), "mode": name, "meaning": meaning, "changed": changed}
            rows.append(row)
    if len(rows) == 1:
        rows[0]["scope"] = "All of the hall"
    return rows


def overrides(hall: Hall) -> list[dict[str, Any]]:
    """What people hold, by whom, until when and why."""
    return [
        {
            "id": held.id,
            "point": held.point,
            "value": point_value(held.value, KINDS[held.point.kind].unit),
            "by": held.by,
            "until_ms": held.until_ms,
            "reason": held.reason,
        }
        for held in hall.overrides()
    ]


def tokens(hall: Hall) -> dict[str, Any]:
    """Sustained tokens per watt, against the uncontrolled twin where there is one."""
    found = fact(hall.decision(), "efficiency")
    here, twin = found.get("hall") or {}, found.get("twin")
    sustained, now = number(here.get("sustained_p5")), number(here.get("tokens_per_joule"))
    text = f"Now {per_watt(now)}." if now is not None else "Not known yet."
    if twin:
        text += f" The uncontrolled twin: {per_watt(number(twin.get('tokens_per_joule')))}."
    else:
        text += " No uncontrolled twin runs here; only the demo has one."
    return {
        "here": sustained if sustained is not None else now,
        "versus": share(number(found.get("versus_twin"))),
        "against": "against the twin",
        "text": text,
        "chart": spark(
            "Tokens per watt of the hall", hall.feed.trend("hall.tokens_per_joule"), 0.02
        ),
    }


def hall_power(hall: Hall, rows: Sequence[Any]) -> dict[str, Any]:
    """Measured power of all racks; unknown as soon as one meter is silent."""
    silent = [row.rack for row in rows if row.power_w is None]
    now = None if silent or not rows else sum(row.power_w for row in rows)
    binding = fact(hall.decision(), "headroom").get("binding") or {}
    left = number(binding.get("headroom_w"))
    text = (
        f"Tightest: {binding.get('element')}, {binding.get('case')}."
        if left is not None
        else "Tightest element: not known yet."
    )
    if silent:
        named = ", ".join(silent[:4]) + (f" and {len(silent) - 4} more" if silent[4:] else "")
        text += f" Not metered now: {named}."
    text += worth(hall)
    series = [
        (at_ms, None if value is None else value / 1e3)
        for at_ms, value in hall.feed.trend("hall.power_w")
    ]
    return {"now": now, "left": left, "text": text, "chart": spark("Power, kW", series, 2.0)}


def cooling(hall: Hall) -> list[dict[str, Any]]:
    """Every loop, with the trend of its supply temperature."""
    return [
        {
            "loop": view.loop,
            "supply_c": view.supply_c,
            "setpoint_c": view.setpoint_c,
            "lower_c": view.lower_c,
            "upper_c": view.upper_c,
            "dew_point_c": view.dew_point_c,
            "to_dew_k": view.to_dew_k,
            "to_throttle_k": view.to_throttle_k,
            "text": view.text or view.bound,
            "chart": spark(
                f"Supply temperature of {view.loop}", hall.feed.trend(f"{view.loop}.supply_c")
            ),
        }
        for view in loops(hall)
    ]


def rack_rows(views: Sequence[Any]) -> list[dict[str, Any]]:
    """Racks of the table; of a big hall the tightest."""
    if len(views) > RACKS_SHOWN:
        views = sorted(views, key=lambda v: math.inf if v.headroom_w is None else v.headroom_w)[
            :RACKS_SHOWN
        ]
    rows = []
    for view in views:
        flags = []
        if "normal" in view.down_in:
            flags.append("dark now: no supply.")
        if view.single_fed:
            flags.append("one feed only.")
        if view.shared:
            flags.append(f"goes dark with {', '.join(view.shared)}.")
        if view.mode is not Mode.AUTO:
            flags.append(f"mode {view.mode.value}.")
        rows.append(
            {
                "rack": view.rack,
                "power_w": view.power_w,
                "why_no_power": view.why_no_power,
                "load_w": view.load_w,
                "headroom_w": view.headroom_w,
                "cap": cap(view.cap_low_w, view.cap_high_w),
                "tokens_per_joule": view.tokens_per_joule,
                "inlet_c": view.inlet_c,
                "because": view.because,
                "flags": " ".join(flags),
            }
        )
    return rows


def element_table(study: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Elements, the tightest first, with the length of their bars in % of the limit."""
    rows = []
    for row in list(element_rows(study))[:ELEMENTS_SHOWN]:
        now, worst = number(row.get("normal_w")), number(row.get("worst_w"))
        limit = number(row.get("limit_w"))
        bar = None
        if now is not None and worst is not None and limit:
            bar = {"now": 100.0 * now / limit, "worst": 100.0 * worst / limit}
        rows.append(
            {
                "element": row["element"],
                "kind": str(row.get("kind", "")).replace("_", " "),
                "normal_w": now,
                "worst_w": worst,
                "limit_w": limit,
                "headroom_w": number(row.get("headroom_w")),
                "worst_case": row.get("worst_case"),
                "bar": bar,
            }
        )
    return rows


def alarms(records: Sequence[AlarmRecord]) -> list[dict[str, Any]]:
    """Alarms that need a person: not explained by another one, the unseen and worst first."""
    active = [record for record in records if record.event.active]
    folded: dict[str, int] = {}
    for record in active:
        if record.event.parent is not None:
            folded[record.event.parent] = folded.get(record.event.parent, 0) + 1
    rows = [
        {
            "key": record.event.key,
            "subject": record.event.subject,
            "severity": record.event.severity.name.lower(),
            # The subject stands before it, in bold.
            "text": record.event.text.removeprefix(f"{record.event.subject}: "),
            "since_ms": record.since_ms,
            "acknowledged_by": record.acknowledged_by,
            "note": record.note,
            "folded": folded.get(record.event.key, 0),
            "order": (record.acknowledged_by is not None, -record.event.severity, record.since_ms),
        }
        for record in active
        if record.event.parent is None and record.event.severity > Severity.INFO
    ]
    return sorted(rows, key=lambda row: row["order"])


def from_memory(events: Sequence[AlarmEvent]) -> list[AlarmRecord]:
    """Standing alarms without the database: who has seen them is not known."""
    return [AlarmRecord(event, event.at_ms, None, None, None, None) for event in events]


def withheld(hall: Hall) -> list[str]:
    """Why writes were not sent in the last cycle, each reason once."""
    decision = hall.decision()
    reasons: dict[str, int] = {}
    for _, _, why in decision.withheld if decision is not None else ():
        reasons[why] = reasons.get(why, 0) + 1
    lines = [f"{n} {'write' if n == 1 else 'writes'}: {why}" for why, n in reasons.items()]
    more = len(lines) - WITHHELD_SHOWN
    return lines[:WITHHELD_SHOWN] + ([f"and {more} more reasons"] if more > 0 else [])


def overview(hall: Hall, records: Sequence[AlarmRecord], alarms_note: str) -> dict[str, Any]:
    """Everything on the page."""
    views = racks(hall)
    last_text, last_ms = action(hall, "last")
    next_text, next_ms = action(hall, "next")
    return {
        "top": top(hall),
        "trust": trust(hall),
        "control": control(hall),
        "overrides": overrides(hall),
        "loops": cooling(hall),
        "tokens": tokens(hall),
        "hall_power": hall_power(hall, views),
        "last": {"text": last_text, "at_ms": last_ms},
        "next": {"text": next_text, "at_ms": next_ms},
        "withheld": withheld(hall),
        "alarms": alarms(records),
        "alarms_note": alarms_note,
        "troubled": troubled(hall.devices()),
        "racks": rack_rows(views),
        "element_rows": element_table(fact(hall.decision(), "headroom")),
        "elements": list(hall.facility.power.elements),
        "a_point": str(hall.table.specs[0].id) if len(hall.table) else "",
    }
