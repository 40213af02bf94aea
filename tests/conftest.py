"""What every test may rely on: the checkout's folder, Hypothesis' profile, and no silent skips."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
"""The checkout, so that no test depends on the folder it is started from."""

# Two slow cores must not make a law look broken, and CI must say the same thing twice.
settings.register_profile("wattkeeper", deadline=None, database=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("wattkeeper"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "wattkeeper")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Generator[None]:
    """What a command sets up for its logs ends with its test: a stream and a level of its own."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def _may_skip(reason: str) -> bool:
    """Whether a skip is allowed: always, unless WATTKEEPER_NO_SKIPS says that all is installed.

    One thing cannot be installed: the device captures under the GPL. Where WATTKEEPER_CAPTURES
    names no folder, the tests that read them may skip, if their reason names the variable.
    """
    if os.environ.get("WATTKEEPER_NO_SKIPS", "0") in ("", "0"):
        return True
    return "WATTKEEPER_CAPTURES" in reason and not os.environ.get("WATTKEEPER_CAPTURES")


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not _may_skip(reason):
        report.outcome = "failed"
        report.longrepr = f"skipped under WATTKEEPER_NO_SKIPS=1: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid_skip(report)
    return report
