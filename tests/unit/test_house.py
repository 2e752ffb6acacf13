"""The house rules that a machine can check; the layers are in `.importlinter`, and here is checked that none is missing."""

import ast
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from configparser import ConfigParser
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
    "confluent_kafka": r"kafka/.*|timers/.*|pipelines/.*|stack/services/kafka\.py|chaos/workloads/.*",
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


def contracts() -> Iterator[tuple[set[str], bool]]:
    """The containers of each contract on layers, and whether it must name everything inside them."""
    parser = ConfigParser()
    parser.read(ROOT / ".importlinter")
    for section in parser.values():
        if section.get("type") == "layers":
            yield set(section["containers"].split()), section.getboolean("exhaustive", fallback=False)


def test_every_package_has_a_contract_that_names_all_its_modules_and_packages() -> None:
    packages = {module.parent for module in MODULES if module.name == "__init__.py"}
    divided = {folder for folder in packages if len(list(folder.glob("*.py"))) > 1 or any(folder.glob("*/__init__.py"))}
    wanted = {".".join(folder.relative_to(SOURCE.parent).parts) for folder in divided}
    checked = {container for containers, exhaustive in contracts() if exhaustive for container in containers}
    assert sorted(wanted ^ checked) == []


# Words


MIRRORED = {
    "Committed",
    "Consumer",
    "Cursor",
    "EventType",
    "FailedAttempt",
    "Fired",
    "Firing",
    "KafkaConfiguration",
    "Lease",
    "MovedFiring",
    "NewMessage",
    "Outcome",
    "PartitionStats",
    "Peer",
    "PlannedFiring",
    "Redriven",
    "RetryPolicy",
    "Schedule",
    "ScheduleDraft",
    "ScheduleTarget",
    "Schedules",
    "Schema",
    "Slot",
    "Statistic",
    "Storage",
    "Subscription",
    "SubscriptionBatch",
    "SubscriptionStats",
    "Switch",
    "Timeline",
    "TimerSlot",
    "Topic",
}
"""The client library repeats the nouns of the HTTP API: they are the same things, seen by a caller."""
SAME_NAME = {
    "Message": "what a job is given, and what a topic holds: both are names that users import",
    "Node": "the process, and what the HTTP API says of it",
}


def test_a_name_means_one_thing_in_all_slices() -> None:
    slices: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                slices[node.name].add(module.relative_to(SOURCE).parts[0])
    shared = {name for name, found in slices.items() if len(found) > 1}
    assert sorted(shared ^ (MIRRORED | SAME_NAME.keys())) == []
    assert sorted(name for name in shared & MIRRORED if "sdk" not in slices[name]) == []


LOGGED = {"debug", "info", "warning", "error", "exception", "critical"}
FACT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*( [a-z_]+=%[rs])*")
"""The client library uses Python's own logging, where the fields are part of the line."""


def logged(module: Path) -> Iterator[tuple[int, ast.expr]]:
    for node in ast.walk(tree(module)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "_log"), attr=attr), args=[event, *_]) if (
                attr in LOGGED
            ):
                yield node.lineno, event


def is_fact(event: ast.expr) -> bool:
    match event:
        case ast.Constant(value=str(words)):
            return FACT.fullmatch(words) is not None
        case ast.IfExp(body=one, orelse=other):
            return is_fact(one) and is_fact(other)
    return False


def test_log_events_are_snake_case_facts() -> None:
    """What varies is in the fields, so that an event can be searched for and counted."""
    events = [(f"{name_of(module)}:{line}", event) for module in MODULES for line, event in logged(module)]
    assert len(events) > 50
    assert [f"{where} {ast.unparse(event)}" for where, event in events if not is_fact(event)] == []


def test_packages_say_what_they_are() -> None:
    nameless = [
        module.parent.name for module in MODULES if module.name == "__init__.py" and not ast.get_docstring(tree(module))
    ]
    assert nameless == []


# Documents


PATH = re.compile(r"(?<![\w/.*<{-])((?:[\w-]+/)+[\w-]+\.(?:py|sql|toml|md))\b")


def test_every_file_that_the_architecture_names_exists() -> None:
    """Files are named from the root, or from `src/meantime`."""
    named = set(PATH.findall((ROOT / "ARCHITECTURE.md").read_text("utf-8")))
    assert named, "each flow names the files that it passes"
    assert sorted(path for path in named if not ((ROOT / path).is_file() or (SOURCE / path).is_file())) == []
