"""The pages of the reference that are written from the code say what the code says now."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import reference  # noqa: E402


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize("name", ["cli.md", "configuration.md", "errors.md", "http-api.md", "metrics.md"])
def test_the_reference_says_what_the_code_says(pages: dict[str, str], name: str) -> None:
    committed = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert committed == pages[name], "the code has changed: run `make docs`, and commit what it writes"


def test_every_metric_can_be_asked_for() -> None:
    served = "|".join(reference.SERVED_BY.values())
    assert [module for module in reference._modules_with_metrics() if not re.match(served, module)] == []


def test_the_architecture_shows_the_table_of_the_api() -> None:
    committed = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert committed == reference.architecture(committed), (
        "the table has changed: run `make docs`, and commit what it writes"
    )


def test_the_reference_does_not_depend_on_the_environment(pages: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("MEANTIME_PORT", "1234")
    monkeypatch.setenv("MEANTIME_PRODUCER_GROUP", "somebody")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert reference.pages() == pages
