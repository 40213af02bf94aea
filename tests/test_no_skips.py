"""A skip that CI does not forbid would let a missing program pass for a passing test."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SKIPPING = {
    "test_mark": """
        import pytest
        @pytest.mark.skipif(True, reason="no mosquitto")
        def test_x(): ...
    """,
    "test_call": """
        import pytest
        def test_x():
            pytest.skip("no gcc")
    """,
    "test_module": """
        import pytest
        pytest.importorskip("no_such_module")
    """,
    "test_captures": """
        import pytest
        def test_x():
            pytest.skip("WATTKEEPER_CAPTURES names no folder")
    """,
}


@pytest.fixture
def house(pytester: pytest.Pytester, root, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("WATTKEEPER_NO_SKIPS", raising=False)
    monkeypatch.delenv("WATTKEEPER_CAPTURES", raising=False)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest((root / "tests" / "conftest.py").read_text(encoding="utf-8"))
    return pytester


@pytest.mark.parametrize("name", list(SKIPPING))
def test_a_plain_run_lists_the_skip(house, name: str) -> None:
    house.makepyfile(**{name: SKIPPING[name]})
    result = house.runpytest_inprocess("-rs", "-p", "no:xdist")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*"])


@pytest.mark.parametrize("name", ["test_mark", "test_call"])
def test_no_skips_makes_a_skipped_test_fail(house, monkeypatch, name: str) -> None:
    monkeypatch.setenv("WATTKEEPER_NO_SKIPS", "1")
    house.makepyfile(**{name: SKIPPING[name]})
    result = house.runpytest_inprocess("-p", "no:xdist")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*skipped under WATTKEEPER_NO_SKIPS=1: *no *"])


def test_no_skips_makes_a_skipped_module_fail(house, monkeypatch) -> None:
    monkeypatch.setenv("WATTKEEPER_NO_SKIPS", "1")
    house.makepyfile(test_module=SKIPPING["test_module"])
    result = house.runpytest_inprocess("-p", "no:xdist")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)


def test_captures_may_be_absent_only_where_no_folder_is_named(house, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("WATTKEEPER_NO_SKIPS", "1")
    house.makepyfile(test_captures=SKIPPING["test_captures"])
    house.runpytest_inprocess("-p", "no:xdist").assert_outcomes(skipped=1)
    monkeypatch.setenv("WATTKEEPER_CAPTURES", str(tmp_path))
    house.runpytest_inprocess("-p", "no:xdist").assert_outcomes(failed=1)
