"""Read lists of a NetBox over REST; nothing is ever written there.

Facts (NetBox 4.6, `netbox/api` and `dcim/api`): lists come as `{count, next, previous, results}`;
`next` is the address of the next page; v2 tokens (`nbt_…`) go as Bearer, older ones as Token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

PAGE: Final = 500
MAX_PAGES: Final = 2000
MAX_BYTES: Final = 32 * 1024 * 1024
PATIENCE_S: Final = 30.0


class NetBoxError(Exception):
    """NetBox cannot be asked, or did not answer as NetBox does; the text says what and where."""


class NetBox:
    """One instance; `url` is its root, e.g. `https://dcim.example`."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise NetBoxError(f"{url!r} is no address of a NetBox; write https://host")
        self.url = url.rstrip("/")
        self.instance = parts.netloc
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
            NetBoxError: no answer, a refusal, or an answer of another shape.
        """
        query = httpx2.QueryParams({**filters, "limit": str(PAGE), "ordering": "id"})
        address: str | None = f"{self.url}/api/dcim/{what}/?{query}"
        seen: set[str] = set()
        while address is not None:
            if address in seen or len(seen) >= MAX_PAGES:
                raise NetBoxError(f"{what}: the pages never end")
            seen.add(address)
            page = self._page(what, address)
            yield from page["results"]
            address = self._next(what, page.get("next"))

    def _page(self, what: str, address: str) -> dict[str, Any]:
        try:
            answer = self._client.get(address)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NetBoxError(f"{what}: no answer from {self.instance}: {error}") from error
        if answer.status_code in (401, 403):
            raise NetBoxError(f"{what}: {self.instance} refuses the token ({answer.status_code})")
        if answer.status_code != 200:
            raise NetBoxError(f"{what}: {self.instance} answers {answer.status_code}")
        if len(answer.content) > MAX_BYTES:
            raise NetBoxError(f"{what}: a page of more than {MAX_BYTES} bytes")
        try:
            page = answer.json()
        except ValueError as error:
            raise NetBoxError(f"{what}: {self.instance} answers no JSON") from error
        rows = page.get("results") if isinstance(page, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise NetBoxError(f"{what}: {self.instance} answers no list of results")
        return dict(page)

    def _next(self, what: str, address: object) -> str | None:
        """The next page, on our own address of the host: proxies often hide the one it knows."""
        if address is None:
            return None
        if not isinstance(address, str):
            raise NetBoxError(f"{what}: the next page is {address!r}")
        query = urlsplit(address).query
        return f"{self.url}/api/dcim/{what}/?{query}"
