"""A real browser on a real stack. Chromium is found on the PATH, or by `CHROMIUM`; Playwright drives it.

Every page is watched: what the policy forbids, an error in the browser's console and an exception on the page fail the test
that caused it. Without a browser these tests do not run, the end of the run says so, and with `CI=true` that is a failure.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # Most test runs have no use for it.
    from console_data import Sample
    from console_pages import Console
    from playwright.sync_api import Browser

    from conftest import RunningStack

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOW = "install one (Debian: apt-get install chromium), or say where it is by CHROMIUM=/path/to/chromium"
FOLDER = "tests/browser"


def executable() -> str | None:
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing is started for tests that cannot run."""
    if executable() is None and os.environ.get("CI") != "true":
        for item in items:
            if f"/{FOLDER}/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="no browser was found"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if executable() is None and any(FOLDER in argument for argument in config.args):
        terminalreporter.write_sep("=", "the tests of the console did NOT run: no browser was found", yellow=True)
        terminalreporter.write_line(HOW)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One for each file: while Playwright is there, no other event loop can run in this process."""
    from playwright.sync_api import sync_playwright

    found = executable()
    if found is None:
        pytest.fail(f"no browser was found: {HOW}")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def window(browser: "Browser") -> "Iterator[Callable[..., Console]]":
    """`window(url)` is a window of its own on the console of a node."""
    from console_pages import watched

    with ExitStack() as opened:

        def open_window(url: str, **options: Any) -> "Console":
            return opened.enter_context(watched(browser, url, **options))

        yield open_window


@pytest.fixture
def console(window: "Callable[..., Console]", cluster: "RunningStack") -> "Console":
    return window(cluster.urls[0])


@pytest.fixture(scope="module")
def sample(cluster: "RunningStack") -> "Iterator[Sample]":
    from console_data import sample_on

    found = sample_on(cluster.urls[0])
    with found.http:
        yield found
