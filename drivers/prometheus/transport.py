"""Pages of Prometheus text as a transport: one page a look, whatever is asked of it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile import Profile, PrometheusWhere
from drivers.profile.binding import At, Places
from drivers.profile.codec import Answer, Raw
from drivers.prometheus.http import ACCEPT, PATIENCE, Body, Client, NoPage
from drivers.prometheus.page import whole_page
from drivers.prometheus.series import Reader, rows_in
from drivers.transport import FOREVER, Links, WriteReply
from facility.points import Flaw


class PrometheusTransport:
    """Implements `drivers.transport.Transport` for one page.

    Attributes:
        trouble: why the last look got no page, in words; empty when it got one.
    """

    def __init__(
        self,
        address: Address,
        links: Links,
        credentials: Credentials | None = None,
    ) -> None:
        """Prepare; the first look connects.

        Args:
            address: of the page.
            links: clock, time limit and jitter; pages of one process share their client.
            credentials: of kind "password": with a user Basic, without one Bearer.
        """
        self.endpoint = address.endpoint
        self.host = address.host
        self.requests = 0
        self.trouble = ""
        self._url = self._there = f"{address.endpoint}{address.path}"
        self._headers = {"accept": ACCEPT, "accept-encoding": "gzip", **_login(credentials)}
        self._clock = links.clock
        self._timeout_s = PATIENCE * links.timeout_s
        self._patience = links.patience()
        # Plain pages and those over TLS with other files have clients of their own.
        kept_as = f"{address.secure} {address.tls}"
        self._client = links.shared(Client, kept_as, lambda: Client(address.tls))
        self._lock = asyncio.Lock()
        self._readers: WeakKeyDictionary[Places, Reader] = WeakKeyDictionary()
        self._open = False

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """One page, and what it says at every place."""
        body = await self.page()
        if isinstance(body, NoPage):
            return (body.flaw,) * len(places.at)
        page = whole_page(body.data, open_metrics=body.open_metrics, framed=body.framed)
        if page is None:
            self.trouble = "the page is cut short"
            return (Flaw.UNDECODABLE,) * len(places.at)
        reader = self._readers.get(places)
        if reader is None:
            reader = self._readers[places] = Reader(places)
        return reader.answers(page, self._clock.utc_ms(), open_metrics=body.open_metrics)

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """Refuse: a page is only read."""
        return WriteReply("rejected", "a page of metrics cannot be written")

    async def numbered(self, profile: Profile) -> Mapping[str, tuple[int, ...]]:
        """Row numbers of each table of a profile, as the page has them; empty without a page."""
        body = await self.page()
        if isinstance(body, NoPage):
            return {}
        found = {}
        for name in profile.tables:
            entries = (entry for entry in profile.points if entry.table == name)
            wheres: list[PrometheusWhere] = [
                entry.at.prometheus for entry in entries if entry.at.prometheus is not None
            ]
            found[name] = rows_in(body.data, wheres)
        return found

    async def close(self) -> None:
        """Let go of the client; the last one hangs up."""
        if self._open:
            self._open = False
            await self._client.close()

    async def page(self) -> Body | NoPage:
        async with self._lock:
            if self._patience.waiting:
                return NoPage(Flaw.TIMEOUT, self.trouble)
            if not self._open:
                self._open = True
                self._client.users += 1
            self.requests += 1
            found = await self._client.get(self._there, self._headers, self._timeout_s)
        silent = isinstance(found, NoPage) and found.flaw is Flaw.TIMEOUT
        self.trouble = found.words if isinstance(found, NoPage) else ""
        if silent:
            self._patience.silent()
        else:
            self._patience.answered()
        # Where a redirect led is asked at once the next time; a fault starts from the address.
        self._there = found.url if isinstance(found, Body) else self._url
        return found


def _login(credentials: Credentials | None) -> dict[str, str]:
    if credentials is None or credentials.kind != "password":
        return {}
    if credentials.user is None:
        return {"authorization": f"Bearer {credentials.secret}"}
    pair = f"{credentials.user}:{credentials.secret}".encode()
    return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
