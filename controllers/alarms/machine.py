"""The alarm state machine: on-delay, off-delay, folding, and one page per cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controllers.base import Condition
from controllers.blocks import Delayed
from facility.commands import AlarmEvent

#: Kinds that explain others, most fundamental first.
CAUSES: Final = (
    "element_lost",
    "maintenance",
    "broker_unreachable",
    "endpoint_unreachable",
    "data_blind",
    "device_unreachable",
    "flow_lost",
    "pump_lost",
    "agent_silent",
    "hall_released",
)
#: What everything that is published hangs on.
BROKER: Final = "broker"
#: Those that say that something is not heard.
OF_REACH: Final = ("device_unreachable", "agent_silent", "data_blind")
#: The headroom that a loss took away is explained by the loss.
OF_THE_PLANT: Final = ("redundancy_lost", "overload", "allocation_infeasible", "hall_released")


@dataclass(frozen=True, slots=True)
class AlarmState:
    """One alarm's past.

    Attributes:
        delayed: its delays.
        last: the condition as last seen, for its texts.
        parent: alarm that explains it: when it was raised, or from later on.
        told: whether it was raised without one, so that its end is told as well.
        paged: whether it woke somebody.
        since_ms: when it was raised; None while it is not active.
    """

    delayed: Delayed
    last: Condition
    parent: str | None = None
    told: bool = False
    paged: bool = False
    since_ms: int | None = None


@dataclass(frozen=True)
class AlarmMemory:
    """All alarms that are active or on their way up or down, by key."""

    states: Mapping[str, AlarmState] = field(default_factory=dict)

    @property
    def active(self) -> tuple[str, ...]:
        """Keys of active alarms."""
        return tuple(k for k, s in self.states.items() if s.delayed.on)


def _parent(
    condition: Condition, active: Mapping[str, Condition], dead: Mapping[str, str]
) -> str | None:
    """Key of the active alarm that explains `condition`.

    Args:
        condition: to explain.
        active: conditions of active or rising cause alarms, by key.
        dead: thing that hangs on a lost element -> key of the loss.
    """
    for thing in (*condition.about, condition.subject):
        key = dead.get(thing)
        if key is not None and key != condition.key and key in active:
            return key
    if condition.kind in OF_THE_PLANT:
        losses = [k for k, c in active.items() if c.kind == "element_lost"]
        if losses:
            return losses[0]
    for kind in CAUSES[1:]:
        if kind == "data_blind" and condition.kind != "device_unreachable":
            continue  # a rack without meters explains its meters, not its nodes
        for thing in condition.about:
            key = f"{kind}:{thing}"
            if key in active and key != condition.key:
                return key
    return None


def step(
    memory: AlarmMemory,
    conditions: Iterable[Condition],
    dead: Mapping[str, str],
    *,
    now_s: float,
    now_ms: int,
    on_delay_s: float,
    off_delay_s: float,
) -> tuple[tuple[AlarmEvent, ...], AlarmMemory]:
    """One cycle: which alarms changed.

    Args:
        memory: of the cycle before.
        conditions: all that are so now; of two with one key the more severe counts.
        dead: element, rack, load or device -> key of the `element_lost` alarm that explains it.
        now_s: monotonic.
        now_ms: UTC.
        on_delay_s: of the site.
        off_delay_s: of the site.
    """
    present: dict[str, Condition] = {}
    for condition in conditions:
        known = present.get(condition.key)
        if known is None or condition.severity > known.severity:
            present[condition.key] = condition
    causes = {k: c for k, c in present.items() if c.kind in CAUSES} | {
        k: s.last for k, s in memory.states.items() if s.delayed.on and s.last.kind in CAUSES
    }
    events: list[AlarmEvent] = []
    states: dict[str, AlarmState] = {}
    for key in sorted(set(present) | set(memory.states)):
        now = present.get(key)
        old = memory.states.get(key)
        last = now or (old.last if old is not None else None)
        if last is None:
            continue
        before = old.delayed if old is not None else Delayed()
        on_delay = on_delay_s if last.on_delay_s is None else last.on_delay_s
        off_delay = off_delay_s if last.off_delay_s is None else last.off_delay_s
        delayed = before.step(now is not None, now_s, on_delay, off_delay)
        state = AlarmState(delayed, last) if old is None else replace(old, delayed=delayed)
        worse = old is not None and last.severity > old.last.severity
        state = replace(state, last=last)
        if delayed.on and (not before.on or worse):
            parent = _parent(last, causes, dead)
            page = last.page and parent is None and not state.paged
            state = replace(
                state,
                parent=parent,
                told=state.told or parent is None,
                paged=state.paged or page,
                since_ms=state.since_ms or now_ms,
            )
            events.append(_event(state, now_ms, active=True, page=page))
        elif before.on and not delayed.on:
            ended = replace(state, parent=None) if state.told else state
            events.append(_event(ended, now_ms, active=False, page=False))
        elif delayed.on and now is not None and _may_move(state, causes):
            parent = _parent(last, causes, dead)
            if parent != state.parent:
                page = last.page and parent is None and not state.paged
                state = replace(
                    state,
                    parent=parent,
                    told=state.told or parent is None,
                    paged=state.paged or page,
                )
                events.append(_event(state, now_ms, active=True, page=page))
        if delayed.on or delayed.since_s is not None:
            states[key] = state
    return tuple(events), AlarmMemory(states)


def _may_move(state: AlarmState, causes: Mapping[str, Condition]) -> bool:
    """Whether an active alarm may find another parent.

    The first devices to fall silent are told before it is clear that all have; and what stays when
    its cause is over is a story of its own.
    """
    if state.parent is None:
        return state.last.kind in OF_REACH
    return state.parent not in causes


def _event(state: AlarmState, now_ms: int, *, active: bool, page: bool) -> AlarmEvent:
    last = state.last
    return AlarmEvent(
        last.key,
        last.kind,
        last.subject,
        last.severity,
        active,
        last.text,
        now_ms,
        page,
        state.parent,
        dict(last.numbers),
    )
