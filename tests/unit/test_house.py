"""The house rules that a machine can check; the layers are in `.importlinter`."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "meantime"
MODULES = sorted(SOURCE.rglob("*.py"))

DRIVERS = {
    "psycopg": r"database/.*|topics/(storage|duties)/.*|.*/\w*store\.py|.*/postgres\w*\.py",
    "psycopg_pool": r"database/.*",
    "confluent_kafka": r"kafka/.*|timers/.*|pipelines/.*|stack/services/kafka\.py",
    "kazoo": r"coordination/.*|stack/services/zookeeper\.py",
    "pyspark": r"pipelines/.*|stack/.*|cli/pipeline/spark\.py",
}


IMPORT = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)


@cache
def imported(module: Path) -> frozenset[str]:
    """The linter gives every module that is imported a line of its own."""
    return frozenset(IMPORT.findall(module.read_text("utf-8")))


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
