"""Fetch a page over HTTP: one at a time, bounded in size, time and redirects, never raising."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx2

from drivers.address import TlsFiles
from facility.points import Flaw

#: no page of an engine or of eight boards is larger, packed or unpacked; 60,000 samples fit
MAX_BYTES: Final = 4 * 1024 * 1024
#: vLLM sends /metrics on to /metrics/; more than one hop more is somebody's loop
MAX_REDIRECTS: Final = 2
#: an engine answers between two steps of its model; more patience than for a datagram
PATIENCE: Final = 4.0
#: how long an idle connection is trusted; vLLM's server closes it after 5 s, the least of all
KEPT_S: Final = 4.0
#: what is asked for. OpenMetrics is read when it comes, but nothing in it is needed
ACCEPT: Final = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
_GZIP: Final = 16 + zlib.MAX_WBITS
#: media types that are certainly no exposition text
_NO_TEXT: Final = ("html", "json", "protobuf", "xml", "image/", "audio/", "video/")


@dataclass(frozen=True, slots=True)
class Body:
    """A page as it came.

    Attributes:
        data: unpacked.
        open_metrics: the sender says that it is OpenMetrics.
        framed: its length was known, so that all of it came.
        url: where it was in the end.
    """

    data: bytes
    open_metrics: bool
    framed: bool
    url: str


@dataclass(frozen=True, slots=True)
class NoPage:
    """Why there is none, for the readings and for people."""

    flaw: Flaw
    words: str


class Client:
    """HTTP connections to any number of pages, kept open between looks; ended by its last user."""

    def __init__(self, tls: TlsFiles | None) -> None:
        """Take whom to trust over https; files are read when a page is first asked for."""
        self._tls = tls
        self._http: httpx2.AsyncClient | None = None
        self.users = 0

    async def close(self) -> None:
        """One user less; the last one hangs up. A later look connects anew."""
        self.users -= 1
        if self.users == 0 and self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    def _connections(self, *, secure: bool) -> httpx2.AsyncClient:
        """The client, made when it is first needed.

        Raises:
            OSError: a file of certificates cannot be used (`ssl.SSLError` is one).
        """
        if self._http is None:
            limits = httpx2.Limits(keepalive_expiry=KEPT_S)
            context = _context(self._tls or TlsFiles()) if secure else False
            self._http = httpx2.AsyncClient(verify=context, trust_env=False, limits=limits)
        return self._http

    async def get(self, url: str, headers: dict[str, str], timeout_s: float) -> Body | NoPage:
        """One look at a page: its body, or why there is none.

        TIMEOUT: nobody answers, or not in time. REFUSED: a 4xx (SGLang without --enable-metrics),
        or a redirect that leaves the server. DEVICE_FAULT: a 5xx or 429. UNDECODABLE: no HTTP, no
        text, or too much of it.
        """
        try:
            async with asyncio.timeout(timeout_s):
                for _ in range(MAX_REDIRECTS + 1):
                    try:
                        found = await self._ask(url, headers, timeout_s)
                    except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
                        # Most likely it hung up just as we asked; a second time says what it is.
                        found = await self._ask(url, headers, timeout_s)
                    if not isinstance(found, str):
                        return found
                    url = found
        except (TimeoutError, httpx2.TimeoutException):
            return NoPage(Flaw.TIMEOUT, f"no answer within {timeout_s:g} s")
        except (httpx2.RemoteProtocolError, httpx2.DecodingError, zlib.error) as error:
            return NoPage(Flaw.UNDECODABLE, f"not HTTP: {error}")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return NoPage(Flaw.TIMEOUT, str(error) or type(error).__name__)
        return NoPage(Flaw.REFUSED, "sent on and on")

    async def _ask(
        self, url: str, headers: dict[str, str], timeout_s: float
    ) -> Body | NoPage | str:
        """One request: its outcome, or the address that it was sent on to."""
        http = self._connections(secure=url.startswith("https:"))
        async with http.stream("GET", url, headers=headers, timeout=timeout_s) as response:
            status = response.status_code
            if status in (301, 302, 303, 307, 308):
                return _onwards(url, response.headers.get("location", ""))
            if status != 200:
                faulty = status >= 500 or status == 429
                words = f"HTTP status {status} {response.reason_phrase}".strip()
                return NoPage(Flaw.DEVICE_FAULT if faulty else Flaw.REFUSED, words)
            kind = response.headers.get("content-type", "").lower()
            if any(word in kind for word in _NO_TEXT):
                return NoPage(Flaw.UNDECODABLE, f"no text of metrics but {kind}")
            framed = "content-length" in response.headers or "transfer-encoding" in response.headers
            data = await _read(response)
        if data is None:
            return NoPage(Flaw.UNDECODABLE, "too long, cut short, or packed in an unknown way")
        return Body(data, "openmetrics" in kind, framed, url)


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    if files.cert is not None:
        context.load_cert_chain(files.cert, files.key)
    return context


def _onwards(url: str, location: str) -> str | NoPage:
    """Where a redirect leads; only to the same server, whom alone our login is for."""
    try:
        there = urljoin(url, location)
        if location and _server(there) == _server(url):
            return there
    except ValueError:
        pass
    return NoPage(Flaw.REFUSED, "sent on to another server")


def _server(url: str) -> tuple[str, str | None, int, str | None]:
    """Scheme, host, port and login of an address.

    Raises:
        ValueError: no address.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname, port, parts.username


async def _read(response: httpx2.Response) -> bytes | None:
    """The unpacked body; None when it is too long, cut short, or packed in another way."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip", ""):
        return None
    unpack = zlib.decompressobj(_GZIP) if "gzip" in coding else None
    parts: list[bytes] = []
    size = packed = 0
    async for chunk in response.aiter_raw():
        packed += len(chunk)
        if unpack is not None:
            # A bomb is stopped where it becomes too long, not where it ends.
            chunk = unpack.decompress(chunk, MAX_BYTES + 1 - size)
            if unpack.unconsumed_tail or unpack.unused_data:
                return None
        size += len(chunk)
        if size > MAX_BYTES or packed > MAX_BYTES:
            return None
        parts.append(chunk)
    if unpack is not None and not unpack.eof:
        return None
    return b"".join(parts)
