"""Names that are told late, slowly, in part or not at all."""

from __future__ import annotations

import pytest

from drivers.catalog import profiles
from drivers.finding import NamedVariables, find_rows
from drivers.finding.learning import LACKING_AGAIN_S, LACKING_LONGEST_S
from drivers.profile.binding import Places
from drivers.snmp.walk import Walked
from facility.points import Flaw
from tests.drivers.finding.test_naming import (
    NAMES,
    TABLE,
    VALUES,
    Agent,
    Oid,
    StandingClock,
    look,
    named,
)
from tests.drivers.wires import same

POWER, CURRENT = named("Power"), named("Current")


class Slow(Agent):
    """Tells so many names a walk, and then is out of time, or fails."""

    rows, why = 2, "too slow"

    async def walk(self, root: Oid, after: Oid | None = None, within_s: float = 10.0) -> Walked:
        whole = await super().walk(root)
        rest = [n for n in whole.names if after is None or n > after]
        names = tuple(rest[: self.rows])
        why = self.why if len(rest) > self.rows else ""
        return Walked(names, tuple(self.cells[n] for n in names), why, bool(why) and not names)


async def test_names_that_come_up_after_a_start_are_found() -> None:
    """A card answers before its sensors have registered: they were missing for ever."""
    clock, agent = StandingClock(), Agent(Power=7)
    wire = NamedVariables(agent, TABLE, clock)
    assert same(await look(wire, POWER, CURRENT), [7, Flaw.REFUSED])
    agent.place({"Power": (2, 1), "Current": (2, 2)}, {"Power": 7, "Current": 3})
    clock.sleep(LACKING_AGAIN_S)
    assert same(await look(wire, POWER, CURRENT), [7, 3])


async def test_names_that_never_come_cost_ever_fewer_walks() -> None:
    clock, agent = StandingClock(), Agent(Power=7)
    wire = NamedVariables(agent, TABLE, clock)
    places = Places((POWER, CURRENT))
    for _ in range(3600):
        assert same(await wire.fetch(places), [7, Flaw.REFUSED])
        clock.sleep(1.0)
    assert agent.walks <= 8 + 3600 / LACKING_LONGEST_S
    walks = agent.walks
    agent.uptime = 5  # started again: soon again, too
    for _ in range(int(4 * LACKING_AGAIN_S)):
        await wire.fetch(places)
        clock.sleep(1.0)
    assert agent.walks >= walks + 3


@pytest.mark.parametrize("why", ["too slow", "too many requests", "no answer"])
async def test_a_table_too_long_for_one_look_is_learnt_in_pieces(why: str) -> None:
    """Its walk was begun anew at each look and never ended in time."""
    agent = Slow(**{f"Sensor_{i}": i for i in range(9)}, Power=7)
    agent.why = why
    wire = NamedVariables(agent, TABLE, StandingClock())
    for _ in range(4):
        assert same(await look(wire, POWER), [Flaw.TIMEOUT])
    assert same(await look(wire, POWER), [7])


async def test_pieces_from_before_a_restart_are_not_put_to_those_after_it() -> None:
    agent = Slow(A=1, B=2, Power=7)
    wire = NamedVariables(agent, TABLE, StandingClock())
    assert same(await look(wire, POWER), [Flaw.TIMEOUT])
    agent.place({"Power": (2, 1), "A": (2, 2), "B": (2, 3)}, {"Power": 7, "A": 1, "B": 2})
    agent.uptime = 3
    assert same(await look(wire, POWER), [Flaw.TIMEOUT])
    assert same(await look(wire, POWER, named("B")), [7, 2])


async def test_a_table_whose_end_cannot_be_reached_is_used_as_far_as_it_goes() -> None:
    agent = Slow(Power=7, Current=3, Gone=1)
    wire = NamedVariables(agent, TABLE, StandingClock())
    await look(wire, POWER)
    agent.rows, agent.why = 0, "names that do not rise"
    await look(wire, POWER)
    assert same(await look(wire, POWER, CURRENT, named("Gone")), [7, 3, Flaw.REFUSED])


async def test_what_is_known_is_not_given_up_for_a_part_of_it() -> None:
    clock, agent = StandingClock(), Slow(Power=7, Current=3)
    wire = NamedVariables(agent, TABLE, clock)
    missing = named("Fan")
    assert same(await look(wire, POWER, CURRENT, missing), [7, 3, Flaw.REFUSED])
    agent.rows, agent.why = 1, "no answer"
    for _ in range(9):
        clock.sleep(LACKING_AGAIN_S)
        assert same(await look(wire, POWER, CURRENT, missing), [7, 3, Flaw.REFUSED])
        agent.rows = 0


async def test_an_agent_that_tells_no_names_is_not_walked_at_each_look() -> None:
    clock, agent = StandingClock(), Slow(Power=7)
    agent.rows, agent.why = 0, "genErr"
    wire = NamedVariables(agent, TABLE, clock)
    for _ in range(600):
        assert same(await look(wire, POWER), [Flaw.TIMEOUT])
        clock.sleep(1.0)
    assert agent.walks <= 9


async def test_renumbering_in_mid_run_shows_no_value_of_another_and_heals() -> None:
    """Rittal: rows move when a sensor is plugged in; each look in between is right or missing."""
    clock, agent = StandingClock(), Slow(Power=7, Current=3)
    wire = NamedVariables(agent, TABLE, clock)
    places = Places((POWER, CURRENT))
    assert same(await wire.fetch(places), [7, 3])
    agent.place(
        {"Aux": (2, 1), "Power": (2, 2), "Current": (2, 3)}, {"Aux": 99, "Power": 70, "Current": 30}
    )
    for _ in range(70):
        seen = await wire.fetch(places)
        assert all(a in (right, Flaw.REFUSED) for a, right in zip(seen, (70, 30), strict=True))
        clock.sleep(1.0)
    assert same(seen, [70, 30])


async def test_a_write_does_not_wait_for_names_to_be_asked_for_again() -> None:
    clock, agent = StandingClock(), Agent(Power=7)
    wire = NamedVariables(agent, TABLE, clock)
    await look(wire, POWER, CURRENT)
    clock.sleep(LACKING_AGAIN_S)
    assert (await wire.put(POWER, 5)).outcome == "accepted"
    assert (agent.walks, agent.put_at) == (1, [(*VALUES, 2, 1)])
    assert (*NAMES, 2, 1) in agent.cells


@pytest.mark.parametrize("why", ["too slow", "no answer"])
async def test_rows_behind_a_lost_answer_are_found(why: str) -> None:
    """A device got the rows that its walk came to, and never the others."""
    profile = profiles()["pdu/rittal-cmc3"]
    agent = Slow()
    agent.why = why
    column = profile.variables.names if profile.variables is not None else ()
    agent.cells = {(*column, 2, i): f"Phase L{i}.Current.Value".encode() for i in (1, 2, 3)}
    assert await find_rows(profile, agent) == {"phases": (1, 2, 3)}
