"""What import-linter cannot say: which single file may import a library or ask for the time."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ("facility", "drivers", "controllers", "api")
PROTOCOL_LIBRARIES = ("aiomqtt", "amqtt", "gufo", "paho", "pymodbus", "pynvml", "pysnmp", "serial")
NOW_CALLS = ("now", "utcnow", "today")


def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module, by its path inside the checkout."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_bytes(), filename=str(path))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "node_modules" not in path.parts
    }


def imports(tree: ast.AST) -> Iterator[str]:
    """The dotted names a module imports from outside itself, wherever in it they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(library: str) -> list[str]:
    """The files that import a top-level library."""
    return [
        path
        for path, tree in modules().items()
        if any(name.split(".")[0] == library for name in imports(tree))
    ]


def asks_the_date(tree: ast.AST) -> bool:
    """Whether a module calls datetime.now(), date.today() or their like."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in NOW_CALLS
        and isinstance(node.value, ast.Name | ast.Attribute)
        and (node.value.id if isinstance(node.value, ast.Name) else node.value.attr)
        in ("datetime", "date", "dt")
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize(
    "source",
    [
        "import datetime; datetime.datetime.now()",
        "from datetime import datetime, UTC; datetime.now(UTC)",
        "import datetime as dt; dt.date.today()",
    ],
)
def test_the_date_detector_sees(source: str) -> None:
    assert asks_the_date(ast.parse(source))
    assert not asks_the_date(ast.parse("clock.now(); event.now; image.today()"))


def test_the_import_detector_sees_imports_inside_functions() -> None:
    tree = ast.parse("def f():\n    import time as t\n    from os import path\n    from . import x")
    assert list(imports(tree)) == ["time", "os", "os.path"]


def test_only_the_clock_asks_the_time() -> None:
    assert importers("time") == ["facility/clock.py"]
    assert {path for path, tree in modules().items() if asks_the_date(tree)} <= {
        "facility/clock.py"
    }


@pytest.mark.parametrize("library", PROTOCOL_LIBRARIES)
def test_a_protocol_library_is_imported_by_one_file_per_side(library: str) -> None:
    sides: dict[str, list[str]] = defaultdict(list)
    for path in importers(library):
        sides["simulator" if path.startswith("drivers/sim/") else path.split("/")[0]].append(path)
    assert set(sides) <= {"drivers", "simulator"}, f"{library} outside drivers/: {dict(sides)}"
    assert all(len(paths) == 1 for paths in sides.values()), dict(sides)


def test_nobody_but_the_loop_itself_imports_the_loop() -> None:
    """Through loop.py the pure controllers would reach everything they may not import."""
    guilty = [
        path
        for path, tree in modules().items()
        if path.startswith("controllers/")
        and not path.startswith("controllers/loop")
        and any(name.startswith("controllers.loop") for name in imports(tree))
    ]
    assert not guilty


def compared_flaws(tree: ast.AST) -> list[int]:
    """Lines that ask with ==, != or `in` whether something is a flaw."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
        and any(
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and part.value.id == "Flaw"
            and part.attr.isupper()
            for side in (node.left, *node.comparators)
            for part in (side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side])
        )
    ]


@pytest.mark.parametrize(
    "source",
    ["Flaw.TIMEOUT in answers", "a == Flaw.STALE", "a in (Flaw.TIMEOUT, Flaw.STALE)"],
)
def test_the_detector_of_compared_flaws_sees(source: str) -> None:
    assert compared_flaws(ast.parse(source))
    assert not compared_flaws(
        ast.parse("a is Flaw.STALE; a == int(Flaw.STALE); a in Flaw.__members__")
    )


def test_a_reading_of_one_watt_is_never_taken_for_a_timeout() -> None:
    """A flaw is a number too and equals one: an answer is asked `is Flaw.TIMEOUT`, never `==`."""
    guilty = {path: lines for path, tree in modules().items() if (lines := compared_flaws(tree))}
    assert not guilty


def test_there_is_no_package_that_hides_alembic() -> None:
    assert not list((ROOT / "alembic").rglob("__init__.py"))


def test_every_package_and_every_test_folder_has_its_init() -> None:
    folders = {
        path.parent
        for name in (*PACKAGES, "tests")
        for path in (ROOT / name).rglob("*.py")
        if "node_modules" not in path.parts
    }
    missing = [str(f.relative_to(ROOT)) for f in folders if not (f / "__init__.py").exists()]
    assert not missing


def loaded_after(code: str) -> set[str]:
    """The top-level modules loaded once ``code`` has run in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint('modules:', *{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(sys.prefix),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("modules:")[2].split())


def test_the_agent_stays_small() -> None:
    """It runs with privileges beside a customer's work: no web, no database, no solver."""
    loaded = loaded_after("import drivers.agent")
    assert "drivers" in loaded
    heavy = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "scipy", "highspy"}
    assert not loaded & heavy


@pytest.mark.parametrize(
    ("library", "file"),
    [("pymodbus", "drivers/modbus/reference.py"), ("pysnmp", "drivers/snmp/reference.py")],
)
def test_a_second_opinion_is_the_only_file_that_knows_its_library(library: str, file: str) -> None:
    assert importers(library) == [file]


def test_nobody_loads_a_second_opinion_who_did_not_ask_for_it(root: Path) -> None:
    """`check`, the drivers of all protocols, and so the service, read in our own words."""
    example = root / "docs" / "examples" / "engines.yaml"
    loaded = loaded_after(
        "from api.commands.check import run\n"
        f"run([{str(example)!r}], json=True)\n"
        "import drivers.modbus, drivers.snmp, drivers.catalog, api.commands.poll"
    )
    assert {"drivers", "api"} <= loaded
    assert not loaded & {"pymodbus", "pysnmp"}


def test_help_does_not_load_the_heavy_libraries() -> None:
    loaded = loaded_after(
        "import contextlib, sys\n"
        "sys.argv = ['wattkeeper', '--help']\n"
        "from api.cli import main\n"
        "with contextlib.suppress(SystemExit): main()"
    )
    assert "api" in loaded
    assert not loaded & {"fastapi", "starlette", "uvicorn", "sqlalchemy", "numpy", "highspy"}
