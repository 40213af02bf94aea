"""Maintenance of a running hall: planned by people, kept in the database, told to the cycle."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

import numpy as np

from api.hall import Refused, Unknown
from api.picture import iso
from api.service import secrets
from api.service.past import past_loads, windows
from api.service.statement import ALGORITHM, Signer, new_key, signed_by
from api.upkeep import NotAccepted, Plan
from controllers.capacity import Wish
from controllers.capacity.live import live_rack, live_report, live_server, row_named, stands_in
from controllers.cycle.state import CycleInput, Memory
from controllers.maintenance.answer import Price, price, switching, text_of
from controllers.maintenance.consequences import CODES
from controllers.maintenance.forecast import Forecast, forecast
from controllers.maintenance.now import Now, now
from facility.clock import Clock
from facility.commands import Mode
from facility.maintenance import LONGEST_MS, Maintenance, out_of
from facility.ports import Workers
from facility.site import SiteModel
from facility.store import Store
from facility.store.adapters import committed
from facility.topology import named, suggestion

KEY_META: Final = "statement_key"
FORM: Final = "wattkeeper.switching/1"
#: Nothing is planned further ahead.
FARTHEST_MS: Final = 400 * 86_400_000
#: A start that has just passed is a start now.
LATE_MS: Final = 60_000
#: Work that starts within this is priced at the load of now, later work at that of its hours.
SOON_MS: Final = 3_600_000


class Cycling(Protocol):
    """What of the control loop is needed here."""

    @property
    def memory(self) -> Memory:
        """What the last cycle left."""

    @property
    def inputs(self) -> CycleInput | None:
        """What it was given."""

    @property
    def modes(self) -> Mapping[str, Mode]:
        """Modes in force."""

    def set_maintenance(self, works: Sequence[Maintenance]) -> None:
        """Tell the cycle."""

    def wake(self) -> None:
        """Start the next cycle at once."""


class ServiceUpkeep:
    """Implements `api.upkeep.Upkeep`."""

    def __init__(
        self,
        site: SiteModel,
        store: Store,
        clock: Clock,
        workers: Workers,
        config_sha256: str,
        loop: Cycling,
    ) -> None:
        self._site, self._store, self._clock = site, store, clock
        self._workers, self._sha, self._loop = workers, config_sha256, loop
        self._works: dict[str, Maintenance] = {}
        # One wish at a time: two that fit alone need not fit together.
        self._planning = asyncio.Lock()
        self._signer: Signer | None = None

    async def restore(self) -> None:
        """Take over what the database remembers."""
        for record in await committed(self._store.maintenance(active=True)):
            self._works[record.work.id] = record.work
        self._tell()

    def works(self) -> Sequence[Maintenance]:
        """Planned and open, by start."""
        now_ms = self._clock.utc_ms()
        live = [work for work in self._works.values() if work.until_ms > now_ms]
        return sorted(live, key=lambda work: (work.since_ms, work.id))

    def _tell(self) -> None:
        self._loop.set_maintenance(tuple(self.works()))
        self._loop.wake()

    # ---- planning ------------------------------------------------------------------------------

    async def plan(self, wish: Plan, by: str) -> tuple[Maintenance, Sequence[Mapping[str, Any]]]:
        """Take a maintenance in; see `api.upkeep`."""
        now_ms = self._clock.utc_ms()
        since_ms, until_ms = self._times(wish.since_ms, wish.until_ms, now_ms)
        work = Maintenance(
            uuid.uuid4().hex,
            wish.kind,
            self._subject(wish.kind, wish.subject),
            by,
            wish.reason,
            wish.ticket,
            since_ms,
            until_ms,
            tuple(dict.fromkeys(self._scope(scope) for scope in wish.freeze)),
            tuple(dict.fromkeys(wish.accept)),
        )
        strange = [code for code in wish.accept if code not in CODES]
        if strange:
            raise Refused(f"no consequence {strange[0]!r}; they are {', '.join(CODES)}", "accept")
        async with self._planning:
            cost = await self._price(work, now_ms)
            told = [one.to_json() for one in cost.consequences]
            missing = [one.code for one in cost.consequences if one.code not in work.accepted]
            if missing:
                raise NotAccepted(told, missing, _not_accepted(work, cost, missing))
            await committed(self._store.add_maintenance(work))
            self._works[work.id] = work
        self._tell()
        return work, told

    def _times(self, since_ms: int, until_ms: int, now_ms: int) -> tuple[int, int]:
        if since_ms < now_ms - LATE_MS:
            raise Refused("its start has passed", "start")
        since_ms = max(since_ms, now_ms)
        if until_ms <= since_ms:
            raise Refused("it ends before it starts", "end")
        if until_ms - since_ms > LONGEST_MS:
            raise Refused(f"it lasts at most {LONGEST_MS // 86_400_000} days", "end")
        if since_ms - now_ms > FARTHEST_MS:
            raise Refused("that is too far ahead", "start")
        return since_ms, until_ms

    def _subject(self, kind: str, name: str) -> str:
        power = self._site.facility.power
        known: dict[str, Sequence[str]] = {
            "element": tuple(power.elements),
            "rack": tuple(power.racks),
            "load": tuple(power.loads),
            "device": (*self._site.facility.devices, *self._site.facility.nodes),
        }
        found = named(name, known[kind])
        if found is None:
            hint = suggestion(name, known[kind])
            raise Unknown(f"no {kind} {name!r}" + (f" ({hint})" if hint else ""))
        return found

    def _scope(self, scope: str) -> str:
        kind, _, name = scope.partition(":")
        facility = self._site.facility
        known = {"rack": facility.power.racks, "loop": facility.cooling.loops}.get(kind, {})
        if scope != "hall" and name not in known:
            raise Unknown(f"no scope {scope!r}; they are hall, rack:NAME and loop:NAME")
        return scope

    def _now(self) -> Now:
        inputs = self._loop.inputs
        if inputs is None:
            raise Refused("no cycle has run yet")
        return now(self._site, self._loop.memory, inputs)

    def _others(self, since_ms: int, until_ms: int, but: str = "") -> list[Maintenance]:
        """What else is worked on then; entries for `but` itself would hide what it costs."""
        return [w for w in self.works() if w.name != but and w.overlaps(since_ms, until_ms)]

    def _acting(self) -> bool:
        modes = self._loop.modes
        points = self._site.cap_points
        return any(self._site.mode_of(point, modes) is Mode.AUTO for point in points)

    async def _price(self, work: Maintenance, now_ms: int) -> Price:
        here, out = self._now(), out_of((work,))
        load_w = here.loads.load_w
        if out and work.since_ms - now_ms > SOON_MS:
            for_s = (work.until_ms - work.since_ms) / 1000.0
            load_w = (await self._expected(work.since_ms, for_s, now_ms)).load_w
        others = self._others(work.since_ms, work.until_ms, work.name)
        acting = self._acting()
        return await asyncio.wrap_future(
            self._workers.submit(lambda: price(here, others, out, load_w, acting=acting))
        )

    async def _expected(self, at_ms: int, for_s: float, now_ms: int) -> Forecast:
        """The load of those hours."""
        spans = windows(at_ms, for_s, ZoneInfo(self._site.facility.site.timezone))
        return forecast(self._site, await past_loads(self._store, self._site, spans, now_ms))

    async def end(self, work_id: str, by: str) -> Maintenance:
        """End one now, or call a planned one off."""
        work = self._works.get(work_id)
        if work is None or work.until_ms <= self._clock.utc_ms():
            raise Unknown(f"no maintenance {work_id!r} planned or open")
        await committed(self._store.end_maintenance(work_id, by))
        self._works.pop(work_id, None)
        self._tell()
        return work

    # ---- asking --------------------------------------------------------------------------------

    async def ask(self, element: str, at_ms: int, for_s: float, by: str) -> Mapping[str, Any]:
        """May this element be opened then? A signed statement."""
        name = self._subject("element", element)
        now_ms = self._clock.utc_ms()
        at_ms, until_ms = self._times(at_ms, at_ms + round(for_s * 1000.0), now_ms)
        here, others = self._now(), self._others(at_ms, until_ms, f"element:{name}")
        zone = ZoneInfo(self._site.facility.site.timezone)
        expected = await self._expected(at_ms, for_s, now_ms)
        acting = self._acting()
        found: dict[str, Any] = await asyncio.wrap_future(
            self._workers.submit(
                lambda: switching(here, others, name, expected.load_w, acting=acting)
            )
        )
        when = _window(at_ms, until_ms, zone)
        statement: dict[str, Any] = {
            "form": FORM,
            "id": uuid.uuid4().hex,
            "site": self._site.facility.site.name,
            **found,
            "window": {"from": iso(at_ms), "until": iso(until_ms), "text": when},
            "forecast": expected.to_json(self._site, when),
            "other_work": list(dict.fromkeys(work.name for work in others)),
            "lost_now": list(here.lost),
            "acting": acting,
            "asked_by": by,
            "asked_at": iso(now_ms),
            "valid_from": iso(now_ms),
            "valid_until": iso(until_ms),
            "void_if": [
                "the facility file changes",
                "an element is lost or taken out besides",
                "a load is above its forecast",
                "the sentence at the top of the page says that N+1 does not hold",
            ],
            "config_sha256": self._sha,
            "data": self._data(),
        }
        statement["text"] = text_of(statement)
        return (await self._key()).sign(statement)

    def _data(self) -> dict[str, Any]:
        inputs = self._loop.inputs
        if inputs is None:
            return {"cycle": None, "age_s": None, "good_share": None, "text": "unknown"}
        snapshot = inputs.snapshot
        meters = np.concatenate([self._site.feed_meter, self._site.element_meter])
        ages = snapshot.ages_of(meters[meters >= 0])
        seen = ages[np.isfinite(ages)]
        age_s = round(float(seen.max()), 1) if len(seen) else None
        good = float(np.mean((snapshot.quality & 0b11) == 0)) if len(snapshot.quality) else 0.0
        silent = int((~np.isfinite(ages)).sum())
        oldest = "unknown" if age_s is None else f"{age_s:.1f} s"
        text = f"of cycle {inputs.cycle}, oldest meter {oldest}, {100.0 * good:.1f} % good"
        return {
            "cycle": inputs.cycle,
            "at": iso(inputs.now_ms),
            "age_s": age_s,
            "meters_never_read": silent,
            "good_share": good,
            "text": text,
        }

    # ---- capacity ------------------------------------------------------------------------------

    async def capacity(self, rack_w: float | None, lot: int, margin: float) -> Mapping[str, Any]:
        """The capacity report of the hall as it runs."""
        here, inputs = self._now(), self._loop.inputs
        if inputs is None:
            raise Refused("no cycle has run yet")
        work = self._workers.submit(
            lambda: live_report(here, inputs.snapshot, rack_w=rack_w, lot=lot, margin=margin)
        )
        return await asyncio.wrap_future(work)

    async def server_fits(self, rack: str, wish: Wish) -> Mapping[str, Any]:
        """Can this rack take one more server?"""
        here, name = self._now(), self._subject("rack", rack)
        fit = await asyncio.wrap_future(self._workers.submit(lambda: live_server(here, name, wish)))
        return fit.to_json()

    async def rack_fits(self, row: str, model: str | None, wish: Wish) -> Mapping[str, Any]:
        """Can this row take one more rack, like `model` or like its last one?"""
        here, known = self._now(), row_named(self._site.facility.power, row)
        if known is None:
            raise Unknown(f"no row {row!r}, and no element of that name feeds racks directly")
        like = known[0] if model is None else self._subject("rack", model)
        if not stands_in(self._site.facility.power, row, like):
            raise Refused(f"{like} is not of {row}: it hangs on other feeds", "like")
        fit = await asyncio.wrap_future(
            self._workers.submit(lambda: live_rack(here, row, like, known[1], wish))
        )
        return fit.to_json()

    # ---- signing -------------------------------------------------------------------------------

    async def _key(self) -> Signer:
        """The site's key: from where the file says, else its own, made once.

        Raises:
            SecretMissing, BadKey: the file names a place where there is none.
        """
        if self._signer is None:
            source = self._site.facility.statements.key
            if source is not None:
                self._signer = Signer.of_text(secrets.find(source))
            else:
                text = await committed(self._store.meta(KEY_META))
                if text is None:
                    text = new_key()
                    await committed(self._store.set_meta(KEY_META, text))
                self._signer = Signer.of_text(text)
        return self._signer

    async def public_key(self) -> Mapping[str, str]:
        """What statements can be verified with, anywhere."""
        signer = await self._key()
        return {"algorithm": ALGORITHM, "key_id": signer.key_id, "public_key": signer.public_text}

    async def verify(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Whether a statement is ours, and still true."""
        why = signed_by(document, (await self._key()).public)
        if why is not None:
            return {"signed": False, "valid": False, "why": [why]}
        statement = document["statement"]
        reasons = []
        at, until = iso(self._clock.utc_ms()) or "", str(statement.get("valid_until"))
        if at > until:
            reasons.append(f"it was valid until {until}")
        if statement.get("config_sha256") != self._sha:
            reasons.append("the facility file has changed")
        lost = set(self._now().lost) - set(statement.get("lost_now", ()))
        if lost:
            reasons.append(f"lost since: {', '.join(sorted(lost))}")
        out = {w.name for w in self._others(_ms(statement["window"]["from"]), _ms(until))}
        out -= {*statement.get("other_work", ()), f"element:{statement.get('element')}"}
        if out:
            reasons.append(f"also out then: {', '.join(sorted(out))}")
        return {"signed": True, "valid": not reasons, "why": reasons}


def _not_accepted(work: Maintenance, cost: Price, missing: Sequence[str]) -> str:
    texts = " ".join(one.text for one in cost.consequences if one.code in missing)
    return f"{work.subject} out of service: {texts} To go on, accept: {', '.join(missing)}."


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000.0)


def _window(at_ms: int, until_ms: int, zone: ZoneInfo) -> str:
    """`Friday 2026-12-04 02:00 to 04:00 CET`, in site time."""
    start = datetime.fromtimestamp(at_ms / 1000.0, UTC).astimezone(zone)
    end = datetime.fromtimestamp(until_ms / 1000.0, UTC).astimezone(zone)
    last = f"{end:%H:%M}" if end.date() == start.date() else f"{end:%Y-%m-%d %H:%M}"
    return f"{start:%A %Y-%m-%d %H:%M} to {last} {end:%Z}"
