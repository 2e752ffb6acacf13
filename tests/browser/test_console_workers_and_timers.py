"""Timers are set, found and cancelled; queues are paused, reset, and seen as they change hands."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from console_data import Sample
from console_pages import Console
from playwright.sync_api import expect
from workshop import Workshop

from conftest import RunningStack

pytestmark = [pytest.mark.takes(seconds=50), pytest.mark.timeout(300)]

JOB = """
app = App("$app")

@app.job("work-$id")
def handle(message, context):
    note(message)
"""


@pytest.fixture
def workshop(cluster: RunningStack, folder: Path) -> Iterator[Workshop]:
    shop = Workshop(folder, cluster.urls, cluster.places.zookeeper)
    shop.write(JOB)
    shop.create("work", partitions=4)
    yield shop
    shop.close()


def test_a_timer_is_set_looked_up_and_cancelled(console: Console, sample: Sample) -> None:
    name = sample.event_type("called")
    page = console.open("timers")
    page.get_by_label("Calls back").fill(f"event-type:{name}")
    page.get_by_label("After").fill("20m")
    console.button("Set").click()
    console.said("is set.")
    expect(page.locator(".found")).to_contain_text("pending")
    console.button("Cancel …").click()
    console.button("Cancel the timer", console.dialog).click()
    console.said("The timer is cancelled.")
    expect(page.locator(".found")).to_contain_text("cancelled")


def test_a_timer_into_nothing_is_refused_with_the_reason(console: Console, sample: Sample) -> None:
    console.refused(404, 422)
    page = console.open("timers")
    page.get_by_label("Calls back").fill(f"event-type:{sample.name('missing')}")
    console.button("Set").click()
    expect(page.get_by_role("alert")).to_contain_text(sample.name("missing"))


def test_queues_change_hands_before_the_viewers_eyes_and_can_be_paused_and_reset(
    console: Console, workshop: Workshop
) -> None:
    first = workshop.start()
    workshop.wait_until(lambda: workshop.balanced(4, 1))
    page = console.open(f"workers/{workshop.app}")
    console.refused(404)  # Topics of retries are there once something has failed.
    expect(page.locator(".cell.owned")).to_have_count(4, timeout=60_000)
    workshop.start()
    log = page.get_by_role("list", name="Hand-overs")
    expect(log.get_by_role("listitem").first).to_contain_text("→", timeout=60_000)
    expect(page.locator(".matrix thead th")).to_have_count(4)
    row = console.region("Queues").locator("tbody tr").first
    row.get_by_role("button", name="Pause").click()
    console.said("is paused.")
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    console.said("goes on.")
    row.get_by_role("button", name="Reset").click()
    console.button("Reset", console.dialog).click()
    console.said("is reset.")
    console.button("Pause all").click()
    console.said("All queues are paused.")
    first.kill()
    expect(log.get_by_role("listitem").filter(has_text="nobody").first).to_be_visible(timeout=60_000)
