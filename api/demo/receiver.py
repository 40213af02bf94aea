"""A webhook receiver on loopback that checks signatures, as a customer's would."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field

MAX_BODY = 256 * 1024
MAX_HEADERS = 100


@dataclass
class Receiver:
    """Counts what arrives; answers 204 to a valid signature and 401 to anything else.

    Attributes:
        secret: `whsec_` and base64, shared with the sender.
        valid: bodies that were signed right, by webhook id (a repeated delivery counts once).
    """

    secret: str
    valid: dict[str, dict[str, object]] = field(default_factory=dict)
    refused: int = 0
    url: str = ""
    _server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen on a free port of loopback; returns the URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/alarms"
        return self.url

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            status = await asyncio.wait_for(self._one(reader), timeout=5.0)
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
            )
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            self.refused += 1
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader) -> str:
        request = await reader.readline()
        if not request.startswith(b"POST "):
            self.refused += 1
            return "405 Method Not Allowed"
        headers: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = (await reader.readline()).decode("latin-1").strip()
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if not 0 < length <= MAX_BODY:
            self.refused += 1
            return "413 Content Too Large"
        body = await reader.readexactly(length)
        if not self._signed(headers, body):
            self.refused += 1
            return "401 Unauthorized"
        self.valid[headers["webhook-id"]] = json.loads(body)
        return "204 No Content"

    def _signed(self, headers: dict[str, str], body: bytes) -> bool:
        """standard-webhooks: HMAC-SHA256 over `id.timestamp.body`, base64, after `v1,`."""
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        signed = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}."
        digest = hmac.new(key, signed.encode() + body, hashlib.sha256).digest()
        wanted = "v1," + base64.b64encode(digest).decode()
        return any(
            hmac.compare_digest(wanted, given)
            for given in headers.get("webhook-signature", "").split(" ")
        )
