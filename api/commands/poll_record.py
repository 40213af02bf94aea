"""`wattkeeper poll --record`: a look at a device as a capture, and what a person should check."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from drivers.address import Address
from drivers.capture import Page, Recorded, Told, recorded
from drivers.capture.pages import kept_page
from drivers.capture.scrubbing import Scrubber
from drivers.device import DeviceIdentity, ProfiledDevice, identity_places
from drivers.finding import Asks, claim_of
from drivers.profile import Profile
from drivers.profile.binding import At, Places, PrometheusAt, is_loopback
from drivers.profile.codec import Answer, Decoded
from drivers.profile.rows import RowName
from drivers.prometheus.http import NoPage
from drivers.prometheus.transport import PrometheusTransport
from facility.clock import Clock
from facility.points import PointSpec

#: sysContact, sysName and sysLocation: whatever stands there identifies
OWN_WORDS = tuple((1, 3, 6, 1, 2, 1, 1, arc, 0) for arc in (4, 5, 6))


def refused(record: str | None) -> str:
    """Why a capture may not be written there; empty where it may."""
    if record is None:
        return ""
    path = Path(record)
    if path.exists():
        return f"--record {record}: is there already; name another file, or remove it"
    if not path.parent.is_dir():
        return f"--record {record}: there is no folder {path.parent}"
    return ""


class Recorder:
    """Writes each look at one device to a file, and says once what was replaced."""

    def __init__(self, path: Path, address: Address, known: Sequence[Profile], clock: Clock):
        """Take the file, where the device is, and the profiles it could be taken for."""
        self._path, self._address, self._known = path, address, known
        self._clock = clock
        self._told = False

    async def write(
        self,
        device: ProfiledDevice,
        rows: Mapping[str, tuple[RowName, ...]],
        answers: Mapping[At, Answer],
        readings: Sequence[tuple[PointSpec, Decoded]],
        identity: DeviceIdentity,
    ) -> None:
        """Write a look.

        Raises:
            OSError: the file cannot be written.
        """
        profile, wire = device.binding.profile, device.transport
        whose = [
            at
            for at, sources in identity_places(profile.identity).items()
            # What a page says of itself stands in the page.
            if not isinstance(at, PrometheusAt) and any(name != "serial" for name, _ in sources)
        ]
        found = await wire.fetch(Places.of(whose)) if whose else ()
        secrets = [identity.serial or "", self._address.topic.rpartition("/")[2]]
        claim, people = None, []
        if isinstance(wire, Asks):
            claim = await claim_of(wire, self._known)
            own = [await wire.get(oid) for oid in OWN_WORDS]
            contact, name, place = (_text(answer) for answer in own)
            secrets.append(name)
            people = [contact, place]
        if not is_loopback(self._address.host):
            secrets.append(self._address.host)
        keep = [text for text in (identity.vendor, identity.model, identity.firmware) if text]
        scrub = Scrubber(secrets, [*keep, *profile.match.describes], people)
        page = None
        if isinstance(wire, PrometheusTransport):
            page = await self._page(wire, profile, scrub)
        told = Told(
            profile,
            rows,
            answers,
            dict(zip(whose, found, strict=True)),
            readings,
            identity,
            claim,
            page,
        )
        made = await recorded(told, scrub, self._known, self._clock)
        made.capture.write(self._path)
        if not self._told:
            self._told = True
            print(report(self._path, made), file=sys.stderr, flush=True)  # noqa: T201

    async def _page(
        self, wire: PrometheusTransport, profile: Profile, scrub: Scrubber
    ) -> Page | None:
        body = await wire.page()
        if isinstance(body, NoPage):
            return None
        now_ms = self._clock.utc_ms()
        return kept_page(body.data, now_ms, profile, scrub, open_metrics=body.open_metrics)


def _text(answer: Answer) -> str:
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else ""


def report(path: Path, made: Recorded) -> str:
    """What was replaced, what stayed and what differs, for a person who knows the site."""
    lines = [f"recorded {path}: read through it before you hand it on"]
    lines += [f"  replaced  {text!r} by {by!r}" for text, by in made.replaced.items()]
    lines += [f"  kept      {where}: {text!r}" for where, text in made.kept.items()]
    lines += [f"  differs   {text}" for text in made.differs]
    return "\n".join(lines)
