"""How fast the console is in a browser: first paint, a topic with many messages, a chart of 10,000 slots.

    python bench/console_page.py [--messages 1000000] [--url URL]

Without `--url` on a stack of its own. Times are those that the browser reports, best and median of several loads; the size
is what the node sends. There is no peer: the consoles of others show no future load, and their pages no such topic.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from meantime.stack.session import running

LOADS = 7
TOPIC = "bench-console"
DAY_MS = 86_400_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
DRAWN = """() => performance.getEntriesByType("measure").map((one) => [Number(one.name.split(" ")[2]), one.duration])
    .filter(([slots]) => slots > 5000).map(([, duration]) => duration)"""

LOADED = """() => performance.getEntriesByType("measure").some((one) => Number(one.name.split(" ")[2]) > 10)"""
LISTED = "() => document.querySelector('[aria-label=Messages] tbody tr') !== null"


@contextmanager
def stack() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder, running(Path(folder) / "data", nodes=1) as places:
        yield places.nodes[0].url


def fill(url: str, count: int) -> None:
    headers = {"X-Producer-Group": "bench"}
    with httpx.Client(base_url=url, timeout=120) as http:
        http.put(f"/topics/{TOPIC}", json={})
        now_ms = http.get("/clock").json()["now_ms"]
        for first in range(0, count, 10_000):
            messages = [
                {"id": f"m-{n}", "at_ms": now_ms + 60_000 + n * DAY_MS * 30 // count, "body": n}
                for n in range(first, min(count, first + 10_000))
            ]
            http.post(f"/topics/{TOPIC}/messages", json={"messages": messages}, headers=headers)


def size(url: str) -> int:
    """Bytes that the node sends for the page and all it names."""
    with httpx.Client(base_url=url, headers={"Accept-Encoding": "gzip"}) as http:
        page = http.get("/console/")
        names = [part.split('"')[0] for part in page.text.split('="./')[1:]]
        answers = [page, *(http.get(f"/console/{name}") for name in names)]
        return sum(int(answer.headers["Content-Length"]) for answer in answers)


def first_paint(browser: Browser, url: str) -> list[float]:
    times = []
    for _ in range(LOADS):
        with browser.new_context() as context:
            page = context.new_page()
            page.goto(f"{url}/console/")
            page.wait_for_selector("main .panel")
            times.append(float(page.evaluate(PAINTED)))
    return times


def opened(browser: Browser, url: str, place: str, until: str) -> list[float]:
    """From the click on a link, with the console loaded, until what it asks for is shown: a condition in JavaScript."""
    times = []
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{url}/console/#/topics")
        page.wait_for_selector("main .panel")
        for _ in range(LOADS):
            began = time.perf_counter()
            page.evaluate("place => { performance.clearMeasures(); location.hash = place }", f"#/{place}")
            page.wait_for_function(until, polling=5)
            times.append((time.perf_counter() - began) * 1000)
            page.evaluate("location.hash = '#/topics'")
            page.wait_for_selector("input[type=search]")
    return times


def drawn(page: Page, url: str) -> list[float]:
    """Every time that the load is asked for again, for a while."""
    page.goto(f"{url}/console/#/topics/{TOPIC}?span={34 * DAY_MS}&slots=10000")
    page.wait_for_function(f"() => ({DRAWN})().length > 4", timeout=120_000)
    return [float(duration) for duration in page.evaluate(DRAWN)]


def told(what: str, times: list[float]) -> None:
    print(f"{what:<58} best {min(times):7.0f} ms   median {statistics.median(times):7.0f} ms")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--messages", type=int, default=1_000_000)
    arguments.add_argument("--url")
    given = arguments.parse_args()
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or sys.exit("Chromium is not on the PATH")
    with ExitStack() as held:
        url = given.url or held.enter_context(stack())
        fill(url, given.messages)
        playwright = held.enter_context(sync_playwright())
        browser = held.enter_context(playwright.chromium.launch(executable_path=found, args=FLAGS))
        print(f"{'page, script, styles and icon, as they are sent':<58} {size(url) / 1024:7.1f} KB")
        told("first contentful paint, empty cache", first_paint(browser, url))
        told(f"a topic with {given.messages:,} messages opens", opened(browser, url, f"topics/{TOPIC}", LOADED))
        listed = opened(browser, url, f"topics/{TOPIC}?tab=messages", LISTED)
        told("the first page of its messages", listed)
        told("a chart of 10,000 slots is drawn", drawn(held.enter_context(browser.new_context()).new_page(), url))


if __name__ == "__main__":
    main()
