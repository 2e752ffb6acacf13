"""Who may do what: logging in and out, buttons that are not there, bodies that are not shown."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from console_data import BIG, Sample, sample_on
from console_pages import Console, Windows
from playwright.sync_api import expect

from meantime.access.keys import Keys
from meantime.database.pool import open_database
from meantime.stack.model import Places

pytestmark = pytest.mark.takes(seconds=30)


@pytest.fixture(scope="module")
def guarded(node_of: Callable[..., AbstractContextManager[Places]]) -> Iterator[Places]:
    with node_of(MEANTIME_AUTH="true") as places:
        yield places


def new_key(places: Places, *scopes: str) -> str:
    async def add() -> str:
        async with open_database(places.postgres, size=2) as database:
            return (await Keys(database).add("operator", list(scopes), 1))[1]

    with ThreadPoolExecutor(1) as thread:  # The browser's loop runs in this one.
        return thread.submit(asyncio.run, add()).result()


@pytest.fixture(scope="module")
def topic(guarded: Places) -> str:
    sample: Sample = sample_on(guarded.nodes[0].url, Authorization=f"Bearer {new_key(guarded, 'admin')}")
    with sample.http:
        name = sample.topic("guarded")
        sample.messages(name, 3)
        sample.event_type("guarded", events=2)
        return name


@pytest.fixture
def guest(window: Windows, guarded: Places) -> Console:
    return window(guarded.nodes[0].url)


def log_in(console: Console, key: str, place: str = "") -> None:
    page = console.open(place)
    page.get_by_label("Key").fill(key)
    console.button("Log in").click()
    expect(page.get_by_role("heading", name="Log in")).to_have_count(0)


def test_nothing_is_shown_before_a_login_and_a_wrong_key_opens_nothing(guest: Console, guarded: Places, topic: str) -> None:
    guest.refused(401)
    page = guest.open(f"topics/{topic}")
    page.get_by_label("Key").fill("mt_wrong")
    guest.button("Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known")
    page.get_by_label("Key").fill(new_key(guarded, "admin"))
    guest.button("Log in").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(topic)
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"
    guest.button("Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_an_onlooker_sees_everything_but_bodies_and_has_no_buttons(guest: Console, guarded: Places, topic: str) -> None:
    log_in(guest, new_key(guarded, "look"), f"topics/{topic}?tab=messages&open=m-0")
    page = guest.page
    expect(guest.region("Messages").locator("tbody tr.link, tbody tr.opened")).to_have_count(3)
    expect(page.get_by_text("This key may not see bodies.")).to_be_visible()
    for name in ("Move …", "Delete …", "Move all …", "Delete all …"):
        expect(guest.button(name)).to_have_count(0)
    expect(page.get_by_role("link", name="Keys")).to_have_count(0)
    guest.refused(403)
    status = page.evaluate("async (topic) => (await fetch(`/topics/${topic}`, {method: 'DELETE'})).status", topic)
    assert status == 403


def test_one_who_may_look_at_bodies_sees_them(guest: Console, guarded: Places, topic: str) -> None:
    log_in(guest, new_key(guarded, "look:bodies"), f"topics/{topic}?tab=messages&open=m-0")
    expect(guest.page.get_by_role("region", name="Body")).to_contain_text(str(BIG))
    expect(guest.button("Delete …")).to_have_count(0)


def test_an_operator_of_a_topic_changes_messages_of_others(guest: Console, guarded: Places, topic: str) -> None:
    log_in(guest, new_key(guarded, f"operate:{topic}", "look"), f"topics/{topic}?tab=messages&open=m-2")
    guest.button("Delete …").click()
    guest.button("Delete", guest.dialog).click()
    guest.said("m-2 is deleted.")


def test_a_revoked_key_is_logged_out(guest: Console, window: Windows, guarded: Places) -> None:
    admin = window(guarded.nodes[0].url)
    log_in(admin, new_key(guarded, "admin"), "keys")
    admin.button("New key …").click()
    admin.dialog.get_by_label("Whose it is").fill("visitor")
    admin.button("Make", admin.dialog).click()
    key = admin.page.locator(".notice.good code").text_content()
    log_in(guest, key or "")
    guest.refused(401)
    expect(guest.page.locator(".live")).to_contain_text("live")
    admin.page.get_by_role("button", name="Revoke … visitor").click()
    admin.button("Revoke", admin.dialog).click()
    admin.said("visitor is revoked.")
    expect(guest.page.get_by_role("heading", name="Log in")).to_be_visible()
    admin.go("audit")
    expect(admin.region("Audit log")).to_contain_text("visitor")
