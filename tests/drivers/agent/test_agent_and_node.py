"""The agent and the controller's side of it, over a bus in memory, hours in milliseconds."""

from __future__ import annotations

import asyncio
from json import loads
from pathlib import Path
from typing import Any

import pytest

from drivers.agent.lease import State
from drivers.agent.state import CapStateFile
from facility.commands import Outcome
from facility.points import Flaw, Grade, PointId, flaw_of, grade_of
from tests.drivers.agent.rig import NODE, Gpus, Rig, in_virtual_time, settle


def test_boot_applies_the_fallback_before_anything_is_said() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        await Rig.start(gpus)
        assert gpus.limits == [350.0, 350.0]

    in_virtual_time(work)


def test_boot_never_raises_a_limit_that_is_lower_than_the_fallback() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=250.0)
        await Rig.start(gpus)
        assert gpus.limits == [250.0, 250.0]
        assert gpus.writes == []

    in_virtual_time(work)


def test_without_a_fallback_nothing_is_written_until_somebody_commands() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus, fallback_w=None)
        await asyncio.sleep(3600)
        assert gpus.writes == []
        assert rig.device.status is not None
        assert rig.device.status.state is State.UNMANAGED

    in_virtual_time(work)


def test_cap_is_applied_read_back_and_shown_in_the_next_scan() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        assert await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        ack = await rig.device.write(rig.command(512.5, 1))
        assert (ack.outcome, ack.actual) == (Outcome.APPLIED, 512.5)
        assert gpus.limits == [512.5, 512.5]
        await asyncio.sleep(1.1)
        layout = rig.device.layouts[0]
        scan = await rig.device.read(layout)
        value = {str(s.id): v for s, v in zip(layout.points, scan.values, strict=True)}
        assert value["n01:total:power_cap"] == 512.5
        assert value["n01:gpu.1:power_cap_enforced"] == 512.5
        assert value["n01:total:active_power"] == 1000.0
        assert value["n01:total:state"] == float(State.LEASED)
        assert value["n01:gpu.0:margin"] == 30.0

    in_virtual_time(work)


@pytest.mark.parametrize("owner", ["hall-1", "host.example:4711", "user@host/2"])
def test_owners_that_controllers_call_themselves_are_led_by(owner: str) -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        assert await rig.device.renew(owner, 1)
        await asyncio.sleep(0.1)
        assert (await rig.device.write(rig.command(400.0, 1))).outcome is Outcome.APPLIED

    in_virtual_time(work)


def test_an_owner_that_agents_would_refuse_is_a_bug_at_once() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        with pytest.raises(ValueError, match="owner"):
            await rig.device.renew("two words", 1)

    in_virtual_time(work)


def test_command_without_a_lease_is_refused_and_moves_nothing() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(30)
        assert rig.device.status is not None
        ack = await rig.device.write(rig.command(600.0, 1))
        assert ack.outcome is Outcome.REJECTED
        assert "no_lease" in ack.detail
        assert gpus.limits == [350.0, 350.0]

    in_virtual_time(work)


def test_cap_outside_the_board_is_clamped_and_says_so() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        ack = await rig.device.write(rig.command(900.0, 1))
        assert (ack.outcome, ack.actual) == (Outcome.CLAMPED, 700.0)
        ack = await rig.device.write(rig.command(50.0, 2))
        assert (ack.outcome, ack.actual) == (Outcome.CLAMPED, 200.0)

    in_virtual_time(work)


def test_the_nodes_own_floor_holds_against_every_command() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus, floor_w=300.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        ack = await rig.device.write(rig.command(210.0, 1))
        assert (ack.outcome, ack.actual) == (Outcome.CLAMPED, 300.0)
        assert gpus.limits == [300.0, 300.0]

    in_virtual_time(work)


def test_one_gpu_that_refuses_is_clamped_at_the_highest_limit_in_force() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        gpus.cards[1].write_fault = "no_permission"
        ack = await rig.device.write(rig.command(300.0, 2))
        assert (ack.outcome, ack.actual) == (Outcome.CLAMPED, 600.0)
        assert "no_permission" in ack.detail
        gpus.cards[0].write_fault = "no_permission"
        ack = await rig.device.write(rig.command(250.0, 3))
        assert ack.outcome is Outcome.REJECTED

    in_virtual_time(work)


def test_an_older_sequence_and_an_older_epoch_are_refused() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 5)
        await asyncio.sleep(0.1)
        assert (await rig.device.write(rig.command(500.0, 7, 5))).outcome is Outcome.APPLIED
        ack = await rig.device.write(rig.command(600.0, 7, 5))
        assert "stale_sequence" in ack.detail
        await rig.device.renew("c0", 4)
        await asyncio.sleep(0.1)
        assert rig.device.refusal is not None
        assert rig.device.refusal.startswith("stale_epoch")
        ack = await rig.device.write(rig.command(600.0, 9, 4))
        assert "stale_epoch" in ack.detail
        await rig.device.renew("thief", 5)
        await asyncio.sleep(0.1)
        assert rig.device.refusal is not None
        assert rig.device.refusal.startswith("wrong_owner")
        assert gpus.limits == [500.0, 500.0]

    in_virtual_time(work)


def test_a_newer_epoch_takes_over_and_moves_no_cap_by_itself() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(500.0, 7))
        await rig.device.renew("c2", 2)
        await asyncio.sleep(1.1)
        assert rig.device.status is not None
        assert (rig.device.status.owner, rig.device.status.epoch) == ("c2", 2)
        assert gpus.limits == [500.0, 500.0]
        # Sequences begin anew with the epoch.
        assert (await rig.device.write(rig.command(450.0, 1, 2))).outcome is Outcome.APPLIED

    in_virtual_time(work)


def test_an_expired_lease_holds_for_ten_minutes_then_walks_down_to_the_fallback() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus, hold_s=600.0, spread_s=60.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        await asyncio.sleep(14.0 + 590.0)
        assert gpus.limits == [600.0, 600.0]
        assert rig.device.status is not None
        assert rig.device.status.state is State.HOLDING
        await asyncio.sleep(100.0)
        assert gpus.limits == [350.0, 350.0]
        assert rig.device.status.state is State.FALLBACK

    in_virtual_time(work)


def test_an_expired_lease_never_raises_a_cap_that_is_below_the_fallback() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(250.0, 1))
        await asyncio.sleep(3600.0)
        assert gpus.limits == [250.0, 250.0]

    in_virtual_time(work)


def test_a_corrective_site_drops_at_once_when_the_lease_ends() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus, hold_s=0.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        await asyncio.sleep(17.0)
        assert gpus.limits == [350.0, 350.0]

    in_virtual_time(work)


def test_a_kept_lease_moves_nothing_for_half_an_hour() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        await rig.lease_for(1800.0)
        assert gpus.limits == [600.0, 600.0]
        assert rig.device.status is not None
        assert rig.device.status.state is State.LEASED

    in_virtual_time(work)


def test_an_hour_without_the_broker_moves_no_cap_up_and_it_comes_back_by_itself() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus, spread_s=5.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        rig.broker.stop()
        await asyncio.sleep(300.0)
        assert gpus.limits == [600.0, 600.0]
        scan = await rig.device.read(rig.device.layouts[0])
        assert {flaw_of(int(q)) for q in scan.quality} == {Flaw.STALE}
        ack = await rig.device.write(rig.command(650.0, 2))
        assert ack.outcome is Outcome.UNANSWERED
        rig.broker.start()
        await rig.lease_for(3.0)
        assert gpus.limits == [600.0, 600.0]
        assert (await rig.device.write(rig.command(620.0, 3))).outcome is Outcome.APPLIED

    in_virtual_time(work)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_restarted_agent_holds_what_was_commanded(how: str) -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        await (rig.kill() if how == "kill" else rig.stop())
        await asyncio.sleep(60.0)
        assert gpus.limits == [600.0, 600.0]
        await rig.boot()
        assert gpus.limits == [600.0, 600.0]
        assert rig.device.status is not None
        assert rig.device.status.state is State.HOLDING
        await asyncio.sleep(700.0)
        assert gpus.limits == [350.0, 350.0]

    in_virtual_time(work)


def test_a_driver_reload_while_the_agent_was_down_is_lowered_to_what_was_commanded() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(400.0, 1))
        await rig.kill()
        gpus.cards[0].limit_w = 700.0
        await rig.boot()
        assert gpus.limits == [400.0, 400.0]

    in_virtual_time(work)


def test_a_reboot_starts_at_the_fallback_the_controller_last_named() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        rig.device.set_fallback(320.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        await rig.kill()
        for card in gpus.cards:
            card.limit_w = 700.0
        await rig.boot(boot_id="boot-2")
        assert gpus.limits == [320.0, 320.0]
        assert rig.device.status is not None
        assert rig.device.status.state is State.FALLBACK

    in_virtual_time(work)


def test_a_fallback_changed_in_the_file_replaces_what_a_controller_named() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        rig.device.set_fallback(320.0)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.kill()
        await rig.boot(boot_id="boot-2", fallback_w=280.0)
        assert gpus.limits == [280.0, 280.0]

    in_virtual_time(work)


def test_release_restores_the_prior_limits_by_uuid_after_indexes_moved() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        gpus.cards[0].limit_w, gpus.cards[1].limit_w = 480.0, 650.0
        rig = await Rig.start(gpus)
        assert gpus.limits == [350.0, 350.0]
        await rig.kill()
        gpus.cards.reverse()
        await rig.boot()
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(400.0, 1))
        assert await rig.device.release() is Outcome.APPLIED
        assert gpus.card("GPU-0").limit_w == 480.0
        assert gpus.card("GPU-1").limit_w == 650.0

    in_virtual_time(work)


def test_a_released_node_stays_local_over_renewals_restarts_and_reboots() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(400.0, 1))
        await rig.device.release()
        assert gpus.limits == [700.0, 700.0]
        await rig.lease_for(20.0)
        ack = await rig.device.write(rig.command(300.0, 5))
        assert ack.outcome is Outcome.REJECTED
        await rig.kill()
        await rig.boot(boot_id="boot-2")
        await asyncio.sleep(1000.0)
        assert gpus.limits == [700.0, 700.0]
        rig.device.resume()
        await rig.lease_for(2.0)
        assert (await rig.device.write(rig.command(300.0, 6))).outcome is Outcome.APPLIED
        assert gpus.limits == [300.0, 300.0]

    in_virtual_time(work)


def test_a_limit_moved_by_somebody_else_is_shown_and_not_fought() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(400.0, 1))
        gpus.cards[1].limit_w = 700.0
        await rig.lease_for(30.0)
        assert gpus.limits == [400.0, 700.0]
        assert rig.device.status is not None
        shown = [(g.reading.limit_w, g.commanded_w) for g in rig.device.status.gpus]
        assert shown == [(400.0, 400.0), (700.0, 400.0)]
        layout = rig.device.layouts[0]
        scan = await rig.device.read(layout)
        cap = [s.id for s in layout.points].index(PointId("n01", "total", "power_cap"))
        assert scan.values[cap] == 700.0

    in_virtual_time(work)


def test_a_gpu_without_an_answer_makes_the_sum_unknown_not_smaller() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        gpus.cards[1].fault = "gpu_lost"
        await asyncio.sleep(2.0)
        layout = rig.device.layouts[0]
        scan = await rig.device.read(layout)
        at = {str(s.id): i for i, s in enumerate(layout.points)}
        power = at["n01:total:active_power"]
        assert scan.values[power] != scan.values[power]
        assert grade_of(int(scan.quality[power])) is Grade.BAD
        cap = at["n01:total:power_cap"]
        assert scan.values[cap] == 350.0
        assert grade_of(int(scan.quality[cap])) is Grade.SUSPECT
        assert grade_of(int(scan.quality[at["n01:gpu.0:active_power"]])) is Grade.GOOD

    in_virtual_time(work)


def test_a_lowering_that_a_gpu_refused_at_boot_is_tried_until_it_holds() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        gpus.cards[1].fault = "timeout"
        await Rig.start(gpus)
        assert gpus.limits == [350.0, 700.0]
        gpus.cards[1].fault = None
        await asyncio.sleep(2.0)
        assert gpus.limits == [350.0, 350.0]

    in_virtual_time(work)


def test_a_command_issued_too_long_ago_is_not_sent() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        late = rig.command(600.0, 1, issued_ms=rig.clock.utc_ms() - 2500)
        ack = await rig.device.write(late)
        assert ack.outcome is Outcome.REJECTED
        assert gpus.limits == [350.0, 350.0]

    in_virtual_time(work)


def test_a_cap_that_hung_on_its_way_was_still_taken_after_its_own_deadline() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        heard: list[dict[str, Any]] = []
        rig.bus.subscribe("wk/n01/command", lambda _t, payload, _r: heard.append(loads(payload)))
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        status = rig.device.status
        assert status is not None
        made_s = status.monotonic_s
        assert made_s is not None
        issued_s = rig.clock.monotonic_s() - 1.5
        ack = await rig.device.write(
            rig.command(600.0, 1, issued_ms=rig.clock.utc_ms() - 1500, deadline_s=2.0)
        )
        assert ack.outcome is Outcome.APPLIED
        cap = next(message for message in heard if message["type"] == "cap")
        assert made_s + cap["deadline_s"] <= issued_s + 2.0 + 0.01

    in_virtual_time(work)


def test_a_replayed_command_is_too_old_on_the_agents_own_clock() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        heard: list[bytes] = []
        rig.bus.subscribe("wk/n01/command", lambda _t, payload, _r: heard.append(payload))
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(600.0, 1))
        await rig.device.write(rig.command(300.0, 2))
        await asyncio.sleep(2.5)
        replay = heard[-1].replace(b'"sequence":2', b'"sequence":9').replace(b"300", b"690")
        await rig.bus.publish("wk/n01/command", replay)
        await asyncio.sleep(0.1)
        assert gpus.limits == [300.0, 300.0]
        await rig.kill()
        await rig.boot()
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        await rig.bus.publish("wk/n01/command", replay)
        await asyncio.sleep(0.1)
        assert gpus.limits == [300.0, 300.0]

    in_virtual_time(work)


def test_a_retained_status_is_suspect_and_is_never_quoted() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        heard: list[bytes] = []
        rig.bus.subscribe("wk/n01/status", lambda _t, payload, _r: heard.append(payload))
        await asyncio.sleep(1.1)
        await rig.kill()
        await settle(rig.bus.publish("wk/n01/status", heard[-1], retain=True))
        fresh = type(rig.device)("n01", NODE, rig.bus, rig.clock, prefix="wk")
        await asyncio.sleep(0.1)
        scan = await fresh.read(fresh.layouts[0])
        good = [q for q in scan.quality if grade_of(int(q)) is Grade.GOOD]
        assert good == []
        assert flaw_of(int(scan.quality[0])) is Flaw.RETAINED
        assert not await fresh.renew("c1", 1)

    in_virtual_time(work)


def test_the_state_file_survives_damage_by_starting_safe(tmp_path: Path) -> None:
    (tmp_path / "caps.json").write_bytes(b'{"version": 1, "boot_id"')
    state = CapStateFile(tmp_path)
    assert state.load() is None
    assert (tmp_path / "caps.damaged").exists()
    assert not (tmp_path / "caps.json").exists()
