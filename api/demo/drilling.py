"""A drill before the scenario: a corrective site engages nothing without the proof of one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from typing import Any, Final

from api.demo.children import ChildDied

API: Final = "/api/v1"
#: A drill, proofs that must stand, and caps that rise at the site's ramp take this long at most.
WITHIN_S: Final = 240.0
LOOK_S: Final = 1.0
#: Caps that have not moved for so many looks have risen.
STILL_LOOKS: Final = 6
REQUEST_S: Final = 10.0
CONFLICT: Final = 409


class _Refused(Exception):
    """Not now."""


async def drill_first(url: str, key: str, element: str) -> None:
    """Drill, wait until corrective mode is engaged and the caps have risen.

    Args:
        url: of the service.
        key: of an engineer.
        element: declared lost.

    Raises:
        ChildDied: it was refused, or it did not engage; says why.
    """
    wish = {"element": element, "kind": "shed", "reason": "proof before the demo"}
    deadline = asyncio.get_running_loop().time() + WITHIN_S
    while True:
        # Just started, not every node is under a lease yet.
        try:
            await _ask(url, key, "/drills", wish)
            break
        except _Refused as error:
            if asyncio.get_running_loop().time() >= deadline:
                raise ChildDied(f"no drill: {error}") from None
            await asyncio.sleep(LOOK_S)
    before: list[float] = []
    still = 0
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(LOOK_S)
        if (await _ask(url, key, "/drills"))[0]["state"] in ("aborted", "failed"):
            with contextlib.suppress(_Refused):
                await _ask(url, key, "/drills", wish)
        mode = await _ask(url, key, "/corrective")
        nodes = (await _ask(url, key, "/allocation"))["nodes"]
        caps = [float(node["cap_w"]) for node in nodes.values()]
        still = still + 1 if mode["engaged"] and caps == before else 0
        before = caps
        if still >= STILL_LOOKS:
            return
    raise ChildDied(f"corrective mode did not engage: {'; '.join(mode['missing'])}")


async def _ask(url: str, key: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + API + path, data=data, headers=headers)

    def fetch() -> Any:
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            return json.load(answer)

    try:
        return await asyncio.to_thread(fetch)
    except urllib.error.HTTPError as error:
        told = error.read().decode(errors="replace")
        if error.code == CONFLICT:
            raise _Refused(told) from None
        raise ChildDied(f"{path}: {error.code} {told[:300]}") from None
    except OSError as error:
        raise ChildDied(f"{path}: {error}") from None
