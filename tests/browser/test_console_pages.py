"""Every page opens with real data, in light and dark, wide and narrow, and keeps nobody out."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from console_data import Sample
from console_pages import Console, Windows
from playwright.sync_api import expect

from conftest import RunningStack

pytestmark = pytest.mark.takes(seconds=60)

NARROW = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def names(sample: Sample) -> dict[str, str]:
    """Data for all pages, and what the data is called."""
    orders = sample.event_type("orders", events=20)
    mail, letters = sample.dead_letters("mail", 3)
    sample.messages(mail, 200)
    sample.subscription(orders)
    nightly = sample.schedule("nightly", mail)
    return {"nightly": nightly, "orders": orders, "mail": mail, "letters": letters, "token": sample.timer(orders)}


PAGES = {
    "": "Overview",
    "event-types": "Event types",
    "event-types/{orders}": "{orders}",
    "event-types/{orders}?tab=events": "{orders}",
    "event-types/{orders}?tab=partitions": "{orders}",
    "event-types/{orders}?tab=subscriptions": "{orders}",
    "event-types/{orders}?tab=about": "{orders}",
    "topics": "Topics",
    "topics/{mail}": "{mail}",
    "topics/{mail}?tab=messages&open=m-0": "{mail}",
    "topics/{mail}?tab=consumers": "{mail}",
    "topics/{letters}?tab=dead&open=m-1": "{letters}",
    "topics/{mail}?tab=settings": "{mail}",
    "timers?token={token}": "Timers",
    "schedules": "Schedules",
    "schedules/{nightly}": "{nightly}",
    "workers": "Workers",
    "storages": "Storages",
    "keys": "Keys",
    "audit": "Audit log",
}


@pytest.mark.parametrize("place", PAGES)
def test_a_page_opens_in_light_and_dark_and_on_a_phone(
    window: Windows, cluster: RunningStack, names: dict[str, str], place: str
) -> None:
    light = window(cluster.urls[0], color_scheme="light")
    title, place = PAGES[place].format(**names), place.format(**names)
    page = light.open(place)
    expect(page.get_by_role("heading", level=1)).to_contain_text(title)
    expect(page.locator(".live")).to_contain_text("live")
    expect(page.locator("main .panel").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert light.check_access() == []
    light.button("Use dark colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert light.check_access("color-contrast") == []
    page.set_viewport_size(NARROW)
    expect(light.button("Menu")).to_be_visible()
    assert not light.is_too_wide()


def test_an_address_without_a_hash_opens_the_same_page(console: Console, names: dict[str, str]) -> None:
    page = console.page
    page.goto(f"{console.url}/console/topics/{names['mail']}?tab=settings")
    expect(page.get_by_role("heading", level=1)).to_contain_text(names["mail"])
    expect(page.get_by_text("Farthest future")).to_be_visible()
    assert page.url.endswith(f"/console/#/topics/{names['mail']}?tab=settings")


def test_everything_with_a_name_is_found_by_the_keyboard(console: Console, names: dict[str, str]) -> None:
    page = console.open()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type(names["mail"])
    topic = page.get_by_role("option").filter(has_text=re.compile(rf"^{re.escape(names['mail'])}\s*topic$"))
    expect(topic).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(names["mail"])
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page.get_by_role("heading", name="Event types")).to_be_visible()
    page.keyboard.press("?")
    expect(console.dialog).to_contain_text("pause or resume live updates")
    page.keyboard.press("Escape")
    expect(console.dialog).to_have_count(0)


def test_live_updates_can_be_paused(console: Console) -> None:
    page = console.open()
    expect(page.locator(".live")).to_contain_text("live")
    page.locator(".live").get_by_role("button", name="Pause").click()
    expect(page.locator(".live")).to_contain_text("paused")
    page.locator(".live").get_by_role("button", name="Resume").click()
    expect(page.locator(".live")).to_contain_text("live")


def test_a_time_is_local_and_utc_on_hover(window: Windows, cluster: RunningStack, names: dict[str, str]) -> None:
    console = window(cluster.urls[0], timezone_id="America/New_York", locale="en-US")
    page = console.open(f"event-types/{names['orders']}?tab=about")
    shown = page.locator("time").first
    expect(shown).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
    utc = datetime.strptime(shown.get_attribute("title") or "", "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    expect(shown).to_contain_text(utc.astimezone(ZoneInfo("America/New_York")).strftime("%H:%M:%S"))
