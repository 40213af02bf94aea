"""Read lists of a NetBox over REST; nothing is ever written there.

Facts (NetBox 4.6, `netbox/api` and `dcim/api`): lists come as `{count, next, previous, results}`;
`next` is the address of the next page; v2 tokens (`nbt_…`) go as Bearer, older ones as Token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from facility.clock import SystemClock

PAGE: Final = 500
MAX_PAGES: Final = 2000
MAX_BYTES: Final = 32 * 1024 * 1024
#: For each read, and for a whole page: an answer that drips is none.
PATIENCE_S: Final = 30.0
PAGE_PATIENCE_S: Final = 120.0
#: Of an address that is repeated to people.
SHOWN: Final = 200


class NetBoxError(Exception):
    """NetBox cannot be asked, or did not answer as NetBox does; the text says what and where."""


class NetBox:
    """One instance; `url` is its root, e.g. `https://dcim.example`."""

    def __init__(self, url: str, token: str, page_patience_s: float = PAGE_PATIENCE_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise NetBoxError(f"{url!r} is no address of a NetBox; write https://host")
        self.url = url.rstrip("/")
        self.instance = parts.netloc
        self._page_patience_s = page_patience_s
        scheme = "Bearer" if token.startswith("nbt_") else "Token"
        self._client = httpx2.Client(
            headers={"Authorization": f"{scheme} {token}", "Accept": "application/json"},
            timeout=PATIENCE_S,
            follow_redirects=False,
        )

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def rows(self, what: str, **filters: str) -> Iterator[dict[str, Any]]:
        """Every row of a list, e.g. `rows("power-feeds", site="lab")`, in order of id.

        Raises:
            NetBoxError: no answer, a refusal, an answer of another shape, or rows that came or went
                while the pages were read: one of them could be missing.
        """
        query = httpx2.QueryParams({**filters, "limit": str(PAGE), "ordering": "id"})
        address: str | None = f"{self.url}/api/dcim/{what}/?{query}"
        seen: set[str] = set()
        told: set[int] = set()
        read = 0
        while address is not None:
            if address in seen or len(seen) >= MAX_PAGES:
                raise NetBoxError(f"{what}: the pages never end")
            seen.add(address)
            page = self._page(what, address)
            if isinstance(page.get("count"), int):
                told.add(page["count"])
            read += len(page["results"])
            yield from page["results"]
            address = self._next(what, page.get("next"))
        if told and told != {read}:
            counts = " and ".join(str(count) for count in sorted(told))
            raise NetBoxError(
                f"{what}: {self.instance} counts {counts} rows and gave {read}; "
                "were some changed meanwhile? Try again"
            )

    def _page(self, what: str, address: str) -> dict[str, Any]:
        try:
            status, moved_to, body = self._get(what, address)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NetBoxError(f"{what}: no answer from {self.instance}: {error}") from error
        if status in (401, 403):
            raise NetBoxError(f"{what}: {self.instance} refuses the token ({status})")
        if 300 <= status < 400 and moved_to is not None:
            raise NetBoxError(
                f"{what}: {self.instance} sends on to {moved_to[:SHOWN]!r} ({status}); the token "
                "goes nowhere but to the address that you write"
            )
        if status != 200:
            raise NetBoxError(f"{what}: {self.instance} answers {status}")
        try:
            page = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise NetBoxError(f"{what}: {self.instance} answers no JSON") from error
        rows = page.get("results") if isinstance(page, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise NetBoxError(f"{what}: {self.instance} answers no list of results")
        return dict(page)

    def _get(self, what: str, address: str) -> tuple[int, str | None, bytes]:
        """Status, where it moved to, and body; what is too large or drips is not waited for."""
        clock = SystemClock()
        body, since_s = bytearray(), clock.monotonic_s()
        with self._client.stream("GET", address) as answer:
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MAX_BYTES:
                    raise NetBoxError(f"{what}: a page of more than {MAX_BYTES} bytes")
                if clock.monotonic_s() - since_s > self._page_patience_s:
                    raise NetBoxError(
                        f"{what}: {self.instance} takes longer than {self._page_patience_s:g} s "
                        "for a page"
                    )
            return answer.status_code, answer.headers.get("location"), bytes(body)

    def _next(self, what: str, address: object) -> str | None:
        """The next page, on our own address of the host: proxies often hide the one it knows."""
        if address is None:
            return None
        if not isinstance(address, str):
            raise NetBoxError(f"{what}: the next page is {address!r}")
        query = urlsplit(address).query
        return f"{self.url}/api/dcim/{what}/?{query}"
