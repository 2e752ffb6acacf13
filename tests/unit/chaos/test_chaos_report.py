"""Reports of the fault suite: gaps, verdict, text, data and page."""

from html.parser import HTMLParser

import msgspec
import pytest

from meantime.chaos.checks.model import Control, Finding
from meantime.chaos.reporting.page import page
from meantime.chaos.reporting.report import Capability, DoneFault, SuiteReport, latest, longest_gap


@pytest.mark.parametrize(
    ("at", "gap"),
    [
        ([1.0, 2.0, 2.5, 7.5, 8.0], 5.0),
        ([1.0, 9.0], 8.0),
        ([1.0, 30.0], 9.0),
        ([], 8.0),
    ],
)
def test_a_gap_is_the_longest_stretch_without_success_after_a_fault(at: list[float], gap: float) -> None:
    assert longest_gap(at, 2.0, 10.0) == gap


def test_what_has_an_instant_is_measured_by_how_late_it_comes() -> None:
    came_before, in_time, late, due_later = (1.0, 9.0), (3.0, 0.2), (4.0, 2.5), (18.0, 5.0)
    assert latest([came_before, in_time, late, due_later], 2.0, 10.0) == 2.5
    came_when_all_was_over = (300.0, 292.0)
    assert latest([late, came_when_all_was_over], 2.0, 10.0) == 292.0


def report() -> SuiteReport:
    made = SuiteReport(7, "meantime chaos topics", 1, began=100.0, ended=160.0, left_out=["power: <no root>"])
    made.faults = [DoneFault(1, "kill", "kill -9 of node-1", "killed node-1", 110.0, 110.1, 114.0)]
    made.capabilities = {"topics": Capability([101.0, 109.0, 115.5, 150.0], counts={"created": 4})}
    made.controls = [Control("topics", "a planted loss", "lost", caught=True, recorded=True)]
    made.measure()
    return made


def test_a_report_says_what_was_done_the_gaps_and_the_verdict() -> None:
    made = report()
    text = "\n".join(made.lines())
    assert made.good
    assert "killed node-1" in text
    assert "left out: power" in text
    data = msgspec.json.decode(msgspec.json.encode(made.as_data()))
    assert data["faults"][0]["gap_s"] == {"topics": 34.5}
    assert data["verdict"] == "no finding"


def test_a_finding_and_a_control_that_saw_nothing_are_both_failures() -> None:
    found, blind = report(), report()
    found.findings.append(Finding("topics", "lost", "m", "gone"))
    blind.controls.append(Control("topics", "a planted loss", "lost", caught=False, recorded=False))
    assert not found.good
    assert "FINDING topics" in "\n".join(found.lines())
    assert not blind.good
    assert "worth nothing" in blind.verdict


def test_the_page_needs_nothing_else_and_escapes_what_it_is_told() -> None:
    tags: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    Reader().feed(page(report()))
    assert "svg" in {tag for tag, _ in tags}
    assert not [attrs for _, attrs in tags if "src" in attrs or "href" in attrs]
    assert "&lt;no root&gt;" in page(report())
