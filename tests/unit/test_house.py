"""The house rules that a machine can check; the layers are in `.importlinter`."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "meantime"
MODULES = sorted(SOURCE.rglob("*.py"))

DRIVERS = {
    "psycopg": r"database/.*|.*/postgres\w*\.py",
    "psycopg_pool": r"database/.*|.*/postgres\w*\.py",
    "confluent_kafka": r".*/kafka\w*\.py|pipelines/.*",
    "kazoo": r"coordination/.*|stack/zookeeper\.py",
    "pyspark": r"pipelines/.*|stack/.*|cli/pipeline_spark\.py",
}


@cache
def imported(module: Path) -> frozenset[str]:
    return frozenset(_imports(module))


def _imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_drivers_are_imported_by_adapters_only(driver: str) -> None:
    allowed = re.compile(DRIVERS[driver])
    names = [module.relative_to(SOURCE).as_posix() for module in MODULES if driver in imported(module)]
    assert [name for name in names if not allowed.fullmatch(name)] == []


def test_no_module_is_over_four_hundred_lines() -> None:
    lengths = {module.relative_to(SOURCE).as_posix(): len(module.read_text("utf-8").splitlines()) for module in MODULES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_packages_say_what_they_are() -> None:
    nameless = [module.parent.name for module in MODULES if module.name == "__init__.py" and not _docstring(module)]
    assert nameless == []


def _docstring(module: Path) -> str | None:
    return ast.get_docstring(ast.parse(module.read_text("utf-8")))
