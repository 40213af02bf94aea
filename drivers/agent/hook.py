"""The site's power-off hook: a program that stops jobs and switches its own node off."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence

import structlog

_log = structlog.get_logger("wattkeeper.agent")


def hook(words: Sequence[str]) -> Callable[[], None] | None:
    """What starts the program; None where the site names none.

    It runs in a session of its own: it must outlive the agent that it is going to end. A second
    start while it runs is left out.

    Args:
        words: the program, by its whole path, and its arguments. No shell reads them.
    """
    if not words:
        return None
    running: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        if running and running[-1].poll() is None:
            return
        try:
            # Only what the node's own administrator wrote into its agent.yaml, and no shell.
            running.append(
                subprocess.Popen(
                    list(words), stdin=subprocess.DEVNULL, start_new_session=True, cwd=os.sep
                )
            )
        except OSError as error:
            _log.error("the power-off hook does not start", hook=words[0], error=str(error))

    return start
