"""What an operator does with the messages of a topic: see the future, search, move, delete, send back."""

import re

import pytest
from console_data import BIG, HOUR_MS, Sample
from console_pages import Console
from playwright.sync_api import expect

pytestmark = pytest.mark.takes(seconds=40)


def test_the_slider_moves_now_ahead_and_says_what_will_be_due(console: Console, sample: Sample) -> None:
    topic = sample.topic("future")
    sample.messages(topic, 100, first_ms=HOUR_MS, step_ms=1000)
    page = console.open(f"topics/{topic}?span=21600000")
    slider = page.get_by_role("slider", name="Move now ahead")
    due = page.locator(".figure").filter(has_text="will have become due").locator(".value")
    expect(due).to_have_text("0")
    slider.focus()
    page.keyboard.press("End")
    expect(due).to_have_text("100")
    assert re.search(r"[?&]at=\d+", page.url)
    console.button("Back to now").click()
    expect(due).to_have_text("0")


def test_a_chart_is_zoomed_by_dragging_and_the_range_is_in_the_address(console: Console, sample: Sample) -> None:
    topic = sample.topic("zoomed")
    sample.messages(topic, 50)
    page = console.open(f"topics/{topic}")
    over = page.locator(".u-over")
    expect(over).to_be_visible()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 50, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from=\d+&to=\d+"))
    found = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert found is not None
    assert 0 < int(found[2]) - int(found[1]) < 24 * HOUR_MS
    console.button("1 y").click()
    page.wait_for_url(re.compile(r"span=31536000000"))
    page.go_back()
    page.wait_for_url(re.compile(r"from=\d+&to=\d+"))


def test_messages_are_found_by_status_and_id_and_shown_exactly(console: Console, sample: Sample) -> None:
    topic = sample.topic("searched")
    sample.messages(topic, 120)
    sample.messages(topic, 3, prefix="special")
    page = console.open(f"topics/{topic}?tab=messages&status=waiting")
    table = console.region("Messages")
    expect(table.locator("tbody tr")).to_have_count(50)
    console.button("Next page").click()
    expect(table.locator("tbody tr")).to_have_count(100)
    page.get_by_label("Id begins with").fill("special")
    page.keyboard.press("Enter")
    expect(table.locator("tbody tr")).to_have_count(3)
    console.button("Open special-1").click()
    expect(page.get_by_role("region", name="Body")).to_contain_text(str(BIG))


def test_one_message_is_moved_and_another_deleted(console: Console, sample: Sample) -> None:
    topic = sample.topic("changed")
    sample.messages(topic, 3)
    page = console.open(f"topics/{topic}?tab=messages&open=m-0")
    console.button("Move …").click()
    console.button("after", console.dialog).click()
    console.dialog.get_by_label(re.compile("From now")).fill("2d")
    console.button("Move", console.dialog).click()
    console.said("m-0 is moved.")
    moved = sample.http.get(f"/topics/{topic}/messages/m-0", params={"all": True}).json()
    assert moved["at_ms"] > sample.now_ms() + 47 * HOUR_MS
    console.go(f"topics/{topic}?tab=messages&open=m-1")
    console.button("Delete …").click()
    expect(console.dialog).to_contain_text("This cannot be undone.")
    console.button("Delete", console.dialog).click()
    console.said("m-1 is deleted.")
    expect(console.region("Messages").locator("tbody tr").filter(has_text="m-1")).to_have_count(0)
    assert sample.http.get(f"/topics/{topic}/messages/m-1", params={"all": True}).status_code == 404
    assert page.url.endswith("open=m-1")


def test_all_that_the_filter_holds_is_changed_with_the_number_said(console: Console, sample: Sample) -> None:
    topic = sample.topic("many")
    sample.messages(topic, 70, prefix="a")
    sample.messages(topic, 5, prefix="b")
    page = console.open(f"topics/{topic}?tab=messages&id=a-")
    console.button("Delete all …").click()
    expect(console.dialog).to_contain_text("Delete 70 messages?")
    expect(console.dialog).to_contain_text("ids that begin with a-")
    console.button("Keep as it is", console.dialog).click()
    assert sample.http.get(f"/topics/{topic}/count").json() == {"count": 75}
    console.button("Delete all …").click()
    console.button("Delete 70 messages", console.dialog).click()
    console.said("70 messages deleted.")
    assert sample.http.get(f"/topics/{topic}/count").json() == {"count": 5}
    console.go(f"topics/{topic}?tab=messages&status=waiting")
    console.button("Move all …").click()
    expect(console.dialog).to_contain_text("Move 5 messages")
    console.button("Move 5 messages", console.dialog).click()
    console.said("5 messages moved.")
    assert sample.http.get(f"/topics/{topic}/count", params={"status": "available"}).json() == {"count": 5}
    expect(page.get_by_text("No messages here")).to_be_visible()


def test_a_number_that_is_no_longer_true_changes_nothing(console: Console, sample: Sample) -> None:
    topic = sample.topic("racing")
    sample.messages(topic, 4)
    console.refused(409)
    console.open(f"topics/{topic}?tab=messages")
    console.button("Delete all …").click()
    expect(console.dialog).to_contain_text("Delete 4 messages?")
    sample.messages(topic, 1, prefix="late")
    console.button("Delete 4 messages", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_contain_text("5")
    assert sample.http.get(f"/topics/{topic}/count").json() == {"count": 5}


def test_dead_letters_say_why_they_died_and_are_sent_back(console: Console, sample: Sample) -> None:
    topic, letters = sample.dead_letters("dying", 2)
    page = console.open(f"topics/{letters}?tab=dead")
    expect(console.region("Dead letters").locator("tbody tr")).to_have_count(2)
    console.button("Open m-0").click()
    expect(page.get_by_text(f"Died in {topic}")).to_be_visible()
    expect(page.locator(".log li").first).to_contain_text("mailbox full")
    console.button("Send back …").click()
    console.button("Send back", console.dialog).click()
    console.said("2 messages sent back.")
    expect(page.get_by_text("Nothing has died")).to_be_visible()
    assert sample.http.get(f"/topics/{topic}/count").json() == {"count": 2}


def test_a_topic_without_messages_says_what_to_do_next(console: Console, sample: Sample) -> None:
    topic = sample.topic("empty")
    page = console.open(f"topics/{topic}?tab=messages")
    expect(page.get_by_text("No messages here")).to_be_visible()
    expect(page.locator(".command code").first).to_contain_text(f"meantime schedule {topic}")
    page = console.go(f"topics/{topic}?tab=consumers")
    expect(page.locator(".command code").first).to_contain_text(f"meantime consume {topic}")
