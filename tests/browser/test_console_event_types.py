"""What an operator does with event types: a switch that is watched, events, subscriptions."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from console_data import BIG, Sample
from console_pages import Console
from playwright.sync_api import expect

from conftest import RunningStack

pytestmark = pytest.mark.takes(seconds=30)


@contextmanager
def publishing(sample: Sample, event_type: str) -> Iterator[None]:
    """A few events a second, as long as the block runs."""
    ended = threading.Event()

    def publish() -> None:
        for n in range(600):
            if ended.wait(0.1):
                return
            sample.http.post(f"/event-types/{event_type}/events", json=[{"order": n, "total": n * 10}])

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_switch_is_started_and_watched_with_its_phases_and_who_acknowledged(
    console: Console, sample: Sample, cluster: RunningStack
) -> None:
    name = sample.event_type("switched", events=10)
    storages = sample.http.get("/storages").json()
    other = next(one["id"] for one in storages if not one["default"])
    page = console.open(f"event-types/{name}")
    strip = page.get_by_role("list", name="Timelines along time")
    expect(strip.get_by_role("listitem")).to_have_count(1)
    with publishing(sample, name):
        console.button("Switch to a storage …").click()
        console.dialog.get_by_label("Storage").select_option(other)
        console.button("Switch", console.dialog).click()
        console.said(f"{name} is on {other} now.")
    expect(strip.get_by_role("listitem")).to_have_count(2)
    expect(strip.get_by_role("listitem").last).to_contain_text(f"{other}active")
    latest = page.locator(".panel").filter(has=page.get_by_role("heading", name="Latest switch"))
    expect(latest).to_contain_text("done")
    expect(latest.get_by_role("list", name="Phases").get_by_role("listitem").first).to_contain_text("ms")
    for node in cluster.places.nodes:
        expect(latest).to_contain_text(re.compile(rf"{node.id} \d+ ms"))
    assert len(sample.http.get(f"/event-types/{name}/timelines").json()) == 2


def test_events_are_shown_exactly_as_they_come_and_can_be_filtered(console: Console, sample: Sample) -> None:
    name = sample.event_type("tailed", partitions=1)
    page = console.open(f"event-types/{name}?tab=events")
    tail = page.get_by_role("log", name="Events")
    expect(tail).to_contain_text("Waiting for events")
    page.get_by_label("Filter", exact=True).fill("total > 100")
    with publishing(sample, name):
        expect(tail.locator(".event").first).to_contain_text('"total":')
        expect(page.get_by_text(re.compile(r"\d+ hidden by the filter"))).to_be_visible()
    shown = [json.loads(text) for text in tail.locator(".event .text").all_text_contents()]
    assert all(one["total"] > 100 for one in shown)
    page.get_by_label("Filter", exact=True).fill("")
    page.get_by_label("Event", exact=True).fill(json.dumps({"exactly": BIG}))
    console.button("Publish").click()
    console.said("The event is published.")
    expect(tail).to_contain_text(str(BIG))
    assert "filter" not in page.url


def test_an_event_that_is_refused_says_why(console: Console, sample: Sample) -> None:
    name = sample.event_type("refused")
    console.refused(400, 422)
    page = console.open(f"event-types/{name}?tab=events")
    page.get_by_label("Event", exact=True).fill("[1]")
    console.button("Publish").click()
    expect(page.get_by_role("alert")).to_be_visible()


def test_a_subscription_shows_its_lag_and_is_reset(console: Console, sample: Sample) -> None:
    name = sample.event_type("read", partitions=2, events=40)
    subscription = sample.subscription(name)
    newest = [one["newest_available_offset"] for one in sample.http.get(f"/event-types/{name}/partitions").json()]
    page = console.open(f"event-types/{name}?tab=subscriptions")
    expect(page.get_by_role("cell", name="billing")).to_be_visible()
    console.button("Reset …").click()
    console.dialog.get_by_role("combobox").last.select_option("end")
    console.button("Reset 2 partitions", console.dialog).click()
    console.said("2 partitions reset.")
    committed = sample.http.get(f"/subscriptions/{subscription}/cursors").json()["items"]
    assert sorted(one["offset"] for one in committed) == sorted(newest)
