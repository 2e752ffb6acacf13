"""The house rules that a machine can check; the layers are in `.importlinter`."""

import ast
import re
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "meantime"
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


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


def name_of(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("driver", DRIVERS)
def test_drivers_are_imported_by_adapters_only(driver: str) -> None:
    allowed = re.compile(DRIVERS[driver])
    names = [name_of(module) for module in MODULES if driver in imported(module)]
    assert [name for name in names if not allowed.fullmatch(name)] == []


# Sizes


def test_no_module_is_over_four_hundred_lines_and_half_of_them_have_80_to_150() -> None:
    lengths = {name_of(module): len(module.read_text("utf-8").splitlines()) for module in MODULES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
    assert 80 <= statistics.median(length for name, length in lengths.items() if not name.endswith("__init__.py")) <= 150


def test_no_folder_has_more_than_twenty_files() -> None:
    counts: dict[str, int] = defaultdict(int)
    for module in MODULES:
        counts[name_of(module.parent)] += 1
    assert {folder: count for folder, count in counts.items() if count > 20} == {}


# Layers


def test_no_modules_import_each_other_in_a_circle_lazily_or_not() -> None:
    graph = grimp.build_graph("meantime", cache_dir=None)
    below = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    while ends := {module for module, targets in below.items() if not targets & below.keys()}:
        below = {module: targets - ends for module, targets in below.items() if module not in ends}
    assert sorted(below) == [], "these, or what they import, form a cycle"


# Words


def test_packages_say_what_they_are() -> None:
    nameless = [
        module.parent.name for module in MODULES if module.name == "__init__.py" and not ast.get_docstring(tree(module))
    ]
    assert nameless == []
