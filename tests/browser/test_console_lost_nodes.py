"""What the console shows when nodes are lost: of another one, and of its own."""

import os
import signal

import pytest
from console_pages import Windows
from playwright.sync_api import expect

from conftest import Breakable

pytestmark = [pytest.mark.lane("nodes"), pytest.mark.takes(seconds=30)]


def test_a_lost_node_is_shown_by_the_others(window: Windows, breakable: Breakable) -> None:
    console = window(breakable.urls[0])
    page = console.open()
    nodes = console.region("Nodes")
    expect(nodes.get_by_text("healthy")).to_have_count(len(breakable.urls))
    stopped = breakable.send("node-2", signal.SIGSTOP)
    try:
        wrong = page.get_by_role("list", name="What is wrong")
        expect(wrong).to_contain_text("node-2 is")
        expect(nodes.locator("tr").filter(has_text="node-2")).not_to_contain_text("healthy")
    finally:
        os.kill(stopped, signal.SIGCONT)
    expect(nodes.get_by_text("healthy")).to_have_count(len(breakable.urls), timeout=60_000)


def test_a_console_whose_node_is_gone_says_since_when_it_is_stale_and_comes_back(
    window: Windows, breakable: Breakable
) -> None:
    console = window(breakable.urls[2])
    page = console.open()
    expect(page.locator(".live")).to_contain_text("live")
    breakable.send("node-3", signal.SIGKILL)
    expect(page.locator(".live")).to_contain_text("stale since")
    expect(console.region("Nodes")).to_be_visible()
    expect(page.locator(".live")).to_contain_text("live", timeout=60_000)
    console.wrong = [one for one in console.wrong if "ERR_" not in one]
