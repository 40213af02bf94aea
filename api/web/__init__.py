"""The operator page: rendered by the server, works without JavaScript, live with it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
STATIC: Final = FOLDER / "static"
TEMPLATES: Final = FOLDER / "templates"
LIVE_FILES: Final = ("vendor/htmx.min.js", "vendor/sse.min.js")

CHART_FILES: Final = ("vendor/uPlot.iife.min.js", "vendor/uPlot.min.css")


def live_files_present() -> bool:
    """Whether `make web` has fetched what the live page needs."""
    return all((STATIC / name).is_file() for name in LIVE_FILES)


def chart_files_present() -> bool:
    """Whether `make web` has fetched what the zoomable chart needs."""
    return all((STATIC / name).is_file() for name in CHART_FILES)
