"""Variables that are found by name: a value under another's name is never handed over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from drivers.catalog import profiles
from drivers.device import ProfiledDevice
from drivers.finding import NamedVariables, find_rows
from drivers.profile import SnmpWhere, Variables
from drivers.profile.binding import At, NamedAt, Places, SnmpAt, bind
from drivers.profile.codec import Answer, Raw
from drivers.snmp.walk import Walked
from drivers.transport import FOREVER, WriteReply
from facility.clock import SystemClock
from facility.points import Flaw
from tests.drivers.wires import same

Oid = tuple[int, ...]
NAMES, VALUES = (1, 3, 9, 3), (1, 3, 9, 11)
UPTIME = (1, 3, 6, 1, 2, 1, 1, 3, 0)
TABLE = Variables(names="1.3.9.3", values="1.3.9.11")  # type: ignore[arg-type]


class StandingClock(SystemClock):
    """Stands still until it is moved."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Agent:
    """An agent whose variables can be moved."""

    endpoint, host = "agent", ""

    def __init__(self, **variables: int) -> None:
        self.requests = self.walks = 0
        self.silent = False
        self.uptime = 1000
        self.put_at: list[Oid] = []
        self.place({name: (2, n + 1) for n, name in enumerate(variables)}, variables)

    def place(self, where: dict[str, Oid], values: dict[str, int]) -> None:
        self.cells: dict[Oid, Answer] = {}
        for name, suffix in where.items():
            self.cells[NAMES + suffix] = name.replace("_", ".").encode()
            self.cells[VALUES + suffix] = values[name]

    async def fetch(self, places: Places) -> Sequence[Answer]:
        self.requests += 1
        if self.silent:
            return (Flaw.TIMEOUT,) * len(places.at)
        self.cells[UPTIME] = self.uptime
        return [self.cells.get(at.oid, Flaw.REFUSED) for at in places.at if isinstance(at, SnmpAt)]

    async def walk(self, root: Oid, after: Oid | None = None, within_s: float = 10.0) -> Walked:
        self.walks += 1
        below = sorted(oid for oid in self.cells if oid[: len(root)] == root)
        return Walked(tuple(below), tuple(self.cells[oid] for oid in below))

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        assert isinstance(place, SnmpAt)
        self.put_at.append(place.oid)
        return WriteReply("accepted")

    async def close(self) -> None:
        return None


def named(*names: str, within: Oid = ()) -> NamedAt:
    return NamedAt(SnmpWhere(oid=VALUES), VALUES, names, within)


async def look(wire: NamedVariables, *places: At) -> list[Answer]:
    return list(await wire.fetch(Places(places)))


async def test_a_variable_is_found_wherever_it_is() -> None:
    agent = Agent(Power=7, Current_L1=3)
    wire = NamedVariables(agent, TABLE, SystemClock())
    assert same(
        await look(wire, named("Current.L1"), named("Power"), named("Gone")),
        [
            3,
            7,
            Flaw.REFUSED,
        ],
    )
    assert agent.walks == 1


async def test_a_number_that_moved_is_never_read_as_anothers_value() -> None:
    clock = StandingClock()
    agent = Agent(Power=7, Current=3)
    wire = NamedVariables(agent, TABLE, clock)
    places = Places((named("Power"), named("Current")))
    assert list(await wire.fetch(places)) == [7, 3]
    agent.place({"Current": (2, 1), "Power": (2, 2)}, {"Power": 70, "Current": 30})
    assert same(await wire.fetch(places), [Flaw.REFUSED, Flaw.REFUSED])
    clock.sleep(61.0)
    assert list(await wire.fetch(places)) == [70, 30]
    assert agent.walks == 2


async def test_names_are_asked_for_again_after_a_restart() -> None:
    clock = StandingClock()
    agent = Agent(Power=7)
    wire = NamedVariables(agent, TABLE, clock)
    assert await look(wire, named("Power")) == [7]
    agent.uptime = 5
    assert await look(wire, named("Power")) == [7]
    await look(wire, named("Power"))
    assert agent.walks == 2


async def test_a_silence_is_no_restart_and_costs_no_walk() -> None:
    agent = Agent(Power=7)
    wire = NamedVariables(agent, TABLE, SystemClock())
    assert await look(wire, named("Power")) == [7]
    agent.silent = True
    await look(wire, named("Power"))
    agent.silent = False
    assert await look(wire, named("Power")) == [7]
    assert agent.walks == 1


async def test_a_name_that_stands_twice_needs_its_device() -> None:
    agent = Agent()
    agent.cells = {(*NAMES, 2, 1): b"Power", (*VALUES, 2, 1): 7}
    agent.cells |= {(*NAMES, 3, 1): b"Power", (*VALUES, 3, 1): 9}
    wire = NamedVariables(agent, TABLE, SystemClock())
    assert same(await look(wire, named("Power"), named("Power", within=(3,))), [Flaw.REFUSED, 9])


async def test_a_name_of_another_firmware_does_too() -> None:
    wire = NamedVariables(Agent(Power_Active=7), TABLE, SystemClock())
    assert await look(wire, named("Power", "Power.Active")) == [7]


async def test_a_silent_agent_is_not_walked() -> None:
    agent = Agent(Power=7)
    agent.silent = True
    wire = NamedVariables(agent, TABLE, SystemClock())
    assert same(await look(wire, named("Power")), [Flaw.TIMEOUT])
    assert agent.walks == 0


async def test_a_write_goes_only_where_the_name_still_is() -> None:
    agent = Agent(Fans=1, Valve=2)
    wire = NamedVariables(agent, TABLE, SystemClock())
    assert (await wire.put(named("Valve"), 5)).outcome == "accepted"
    assert agent.put_at == [(*VALUES, 2, 2)]
    agent.place({"Valve": (2, 1), "Fans": (2, 2)}, {"Fans": 1, "Valve": 2})
    reply = await wire.put(named("Valve"), 5)
    assert (reply.outcome, len(agent.put_at)) == ("rejected", 1)


async def test_the_first_place_that_answers_counts_as_long_as_it_does() -> None:
    agent = Agent()
    agent.cells = {(1, 3, 9, 2, 4): 8}
    where = SnmpWhere(oid=(1, 3, 9, 1), otherwise=((1, 3, 9, 2),))
    at = SnmpAt(where, (1, 3, 9, 1, 4))
    wire = NamedVariables(agent, None, SystemClock())
    assert await look(wire, at) == [8]
    agent.cells[(1, 3, 9, 1, 4)] = 5
    assert await look(wire, at) == [8]
    del agent.cells[(1, 3, 9, 2, 4)]
    assert await look(wire, at) == [5]


@pytest.mark.parametrize("scale", [-100, -10, 1, 10, 0])
async def test_scale_and_unit_are_the_devices_own(scale: int) -> None:
    profile = profiles()["pdu/rittal-cmc3"]
    base = (1, 3, 6, 1, 4, 1, 2606, 7, 4, 2, 2, 1)
    agent = Agent()
    agent.cells = {
        (*base, 3, 2, 9): b"Phase L1.Current.Value",
        (*base, 11, 2, 9): 500,
        (*base, 7, 2, 9): scale,
        (*base, 5, 2, 9): b"mA",
    }
    wire = NamedVariables(agent, profile.variables, SystemClock())
    found = await find_rows(profile, wire)
    assert found == {"phases": (1,)}
    device = ProfiledDevice(bind(profile, "d", found=found), wire, SystemClock())
    layout = device.layouts[0]
    place = [(s.id.part, s.id.kind) for s in layout.points].index(("phase.1", "current"))
    amperes = (await device.look(layout))[place].value
    factor = 1.0 / -scale if scale < 0 else float(max(scale, 1))
    assert amperes == pytest.approx(0.5 * factor)
