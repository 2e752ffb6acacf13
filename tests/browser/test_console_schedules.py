"""A schedule is made with a preview, seen in the calendar, fired, paused, changed and deleted."""

import re

import pytest
from console_data import BIG, Sample
from console_pages import Console
from playwright.sync_api import expect

pytestmark = pytest.mark.takes(seconds=20)


def test_a_schedule_is_made_with_a_preview_that_marks_where_clocks_change(console: Console, sample: Sample) -> None:
    topic, name = sample.topic("scheduled"), sample.name("nightly")
    page = console.open("schedules")
    console.refused(422)  # What is not complete yet has no preview.
    console.button("New schedule …").click()
    form = console.dialog
    for label, text in (
        ("Id", name),
        ("Cron", "30 2 28 3 *"),
        ("Time zone", "Europe/Berlin"),
        ("Name of the target", topic),
    ):
        form.get_by_role("textbox", name=label, exact=True).fill(text)
    form.get_by_role("textbox", name="Producer group").fill("shop")
    form.get_by_role("textbox", name="Body, JSON").fill(f'{{"n": {BIG}}}')
    expect(form.locator(".log li").first).to_contain_text("2027-03-28T03:00:00")
    expect(form.locator(".log li").first).to_contain_text("moved: gap")
    console.button("Save", form).click()
    console.said(f"{name} is saved.")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert str(BIG) in sample.http.get(f"/schedules/{name}").text


def test_a_schedule_is_fired_paused_resumed_changed_and_deleted(console: Console, sample: Sample) -> None:
    topic, name = sample.topic("steered"), sample.name("hourly")
    target = {"topic": topic, "group": "shop"}
    made = sample.http.put(
        f"/schedules/{name}", json={"cron": "0 * * * *", "target": target, "body": {"n": BIG}, "jitter_ms": 7}
    )
    assert made.status_code == 201, made.text
    page = console.open(f"schedules/{name}")
    console.button("Fire now …").click()
    console.button("Fire now", console.dialog).click()
    console.said(f"{name} has fired.")
    expect(console.region("History").locator("tbody tr").first).to_contain_text("fired")
    console.button("Pause …").click()
    console.dialog.get_by_role("textbox", name=re.compile("Why")).fill("holidays")
    console.button("Pause", console.dialog).click()
    console.said(f"{name} is paused.")
    expect(page.locator(".head")).to_contain_text("paused")
    page.locator(".head").get_by_role("button", name="Resume").click()
    console.said(f"{name} goes on.")
    console.button("Edit …").click()
    console.dialog.get_by_role("textbox", name="Cron", exact=True).fill("30 * * * *")
    console.button("Save", console.dialog).click()
    console.said(f"{name} is saved.")
    changed = sample.http.get(f"/schedules/{name}").json()
    assert (changed["cron"], changed["body"], changed["jitter_ms"]) == ("30 * * * *", {"n": BIG}, 7)
    console.go("schedules")
    expect(page.locator(".calendar")).to_contain_text(name)
    console.go(f"schedules/{name}")
    console.button("Delete …").click()
    console.button("Delete", console.dialog).click()
    console.said(f"{name} is deleted.")
    assert sample.http.get(f"/schedules/{name}").status_code == 404
