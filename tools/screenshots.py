"""Takes the pictures of the README from a stack with real data: `make screenshots`.

    python tools/screenshots.py                 three pictures into docs/images
    python tools/screenshots.py --all FOLDER    every page in light and dark, wide and on a phone, to look at
    python tools/screenshots.py --url URL …     of a running stack, whose data are left as they are

The data are made here: a shop with orders, reminders that become due over the next days with a campaign in the evening, mail
that could not be delivered, timers, and two workers.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from meantime.stack.model import Places
from meantime.stack.session import running

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
SHOP = {"X-Producer-Group": "shop"}
JOBS = """
from meantime import App, Retry

app = App("billing")

@app.job("orders", retry=Retry(attempts=2, delay=30.0))
def bill(message, context):
    if message.event["total"] % 29 == 0:
        raise ValueError("no such customer")
"""
PICTURES = {"overview": "", "future-load": "topics/reminders?at={at}", "switch": "event-types/orders"}
PAGES = {
    **PICTURES,
    "event-types": "event-types",
    "events": "event-types/orders?tab=events&from=begin",
    "partitions": "event-types/orders?tab=partitions",
    "subscriptions": "event-types/orders?tab=subscriptions",
    "schema": "event-types/orders?tab=about",
    "topics": "topics",
    "messages": "topics/reminders?tab=messages",
    "consumers": "topics/invoices?tab=consumers",
    "dead-letters": "topics/mail.dead?tab=dead",
    "settings": "topics/mail?tab=settings",
    "timers": "timers",
    "schedules": "schedules",
    "schedule": "schedules/nightly-report",
    "workers": "workers",
    "application": "workers/billing",
    "storages": "storages",
    "keys": "keys",
    "audit": "audit",
}


def fill(http: httpx.Client) -> None:
    """What does not change any more."""
    for name, partitions in (("orders", 6), ("payments", 3), ("shipping.parcels", 4)):
        sizes = {
            "read_parallelism": partitions,
            "write_parallelism": partitions,
            "messages_per_minute": 1,
            "message_size": 1,
        }
        schema = {"type": "json_schema", "schema": '{"type": "object", "properties": {"total": {"type": "number"}}}'}
        body = {"name": name, "owning_application": "shop", "category": "undefined", "schema": schema}
        http.post("/event-types", json=body | {"default_statistic": sizes})
    for name, settings in (
        ("mail.dead", {}),
        ("mail", {"max_attempts": 1, "dead_letter_topic": "mail.dead"}),
        ("reminders", {}),
        ("invoices", {}),
    ):
        http.put(f"/topics/{name}", json=settings)
    chance = random.Random(7)
    reminders = [_message(f"user-{n}", int(HOUR_MS / 2 + chance.random() ** 1.6 * 3 * DAY_MS)) for n in range(9_000)]
    campaign = [_message(f"campaign-{n}", int(5 * HOUR_MS + chance.gauss(0, 1) * HOUR_MS / 3)) for n in range(8_000)]
    _create(http, "reminders", [*reminders, *campaign])
    _create(http, "invoices", [_message(f"invoice-{n}", int(chance.random() * DAY_MS)) for n in range(2_000)])
    _create(http, "mail", [_message(f"mail-{n}", 0) for n in range(6)])
    http.post("/subscriptions", json={"owning_application": "search", "event_types": ["orders"], "read_from": "begin"})
    timers = [
        {"after": chance.randint(30, 3600), "callback_topic": "event-type:payments", "callback": {"n": n}}
        for n in range(800)
    ]
    http.post("/timers", json={"timers": timers})
    for name, cron in (("nightly-report", "30 2 * * *"), ("digest", "0 9 * * 1-5"), ("heartbeat", "*/15 * * * *")):
        target = {"topic": "reminders", "group": "shop"}
        http.put(
            f"/schedules/{name}", json={"cron": cron, "time_zone": "Europe/Berlin", "target": target, "body": {"job": name}}
        )
    _bury(http)


def _message(id: str, after_ms: int) -> dict[str, object]:
    return {"id": id, "after_ms": max(0, after_ms), "body": {"to": id, "account": 9007199254740993}}


def _create(http: httpx.Client, topic: str, messages: list[dict[str, object]]) -> None:
    for first in range(0, len(messages), 5_000):
        http.post(f"/topics/{topic}/messages", json={"messages": messages[first : first + 5_000]}, headers=SHOP)


def _bury(http: httpx.Client) -> None:
    taken = http.post("/topics/mail/leases", json={"consumer_id": "mailer-1", "limit": 100, "wait_ms": 10_000}).json()[
        "leases"
    ]
    claims = [{"id": one["id"], "version": one["version"], "reason": "SMTP 550: mailbox unavailable"} for one in taken]
    http.post("/topics/mail/leases/release", json={"consumer_id": "mailer-1", "leases": claims})


def traffic(http: httpx.Client, ended: threading.Event) -> None:
    """What goes on while pictures are taken."""
    chance = random.Random(11)
    for n in range(10_000):
        if ended.wait(0.3):
            return
        orders = [{"order": 10 * n + each, "total": chance.randint(5, 500)} for each in range(chance.randint(2, 6))]
        http.post("/event-types/orders/events", json=orders)
        http.post("/event-types/payments/events", json=[{"payment": n}])
        for topic, consumer in (("invoices", "biller-1"), ("reminders", "mailer-2")):
            _create(http, topic, [_message(f"new-{n}", 300)])
            _consume(http, topic, consumer)


def _consume(http: httpx.Client, topic: str, consumer_id: str) -> None:
    leases = http.post(f"/topics/{topic}/leases", json={"consumer_id": consumer_id, "limit": 4}).json().get("leases", [])
    claims = [{"id": one["id"], "version": one["version"]} for one in leases]
    if claims:
        http.post(f"/topics/{topic}/leases/delete", json={"consumer_id": consumer_id, "leases": claims})


@contextmanager
def shop(folder: Path) -> Iterator[str]:
    """A stack that is at work."""
    with ExitStack() as opened:
        data = folder / "data"
        places = opened.enter_context(running(data, nodes=3, kafka=2, timers=True, wait_for_late=False))
        url = places.nodes[0].url
        http = opened.enter_context(httpx.Client(base_url=url, timeout=120))
        fill(http)
        ended = threading.Event()
        thread = threading.Thread(target=traffic, args=(http, ended), daemon=True)
        thread.start()
        opened.callback(thread.join)
        opened.callback(ended.set)
        for _ in range(2):
            opened.callback(_worker(folder, places).terminate)
        other = next(one["id"] for one in http.get("/storages").json() if not one["default"])
        time.sleep(10)
        http.post("/event-types/orders/timelines", json={"storage_id": other})
        time.sleep(10)
        yield url


def _worker(folder: Path, places: Places) -> "subprocess.Popen[bytes]":
    (folder / "jobs.py").write_text(JOBS, "utf-8")
    known = {"MEANTIME_URL": places.nodes[0].url, "MEANTIME_ZOOKEEPER": places.zookeeper}
    command = [sys.executable, "-m", "meantime", "worker", "run", "jobs:app"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=os.environ | known, stdout=quiet, stderr=quiet, start_new_session=True)


def take(page: Page, url: str, place: str, file: Path, *, whole: bool = False) -> None:
    page.goto(f"{url}/console/#/{place.format(at=int(time.time() * 1000) + 7 * HOUR_MS)}")
    page.wait_for_selector("main .panel")
    page.wait_for_timeout(6_000)
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, full_page=whole)
    print(file)


def pictures(browser: Browser, url: str) -> None:
    with browser.new_context(viewport=WIDE, color_scheme="light") as context:
        for name, place in PICTURES.items():
            take(context.new_page(), url, place, IMAGES / f"console-{name}.png")


def everything(browser: Browser, url: str, folder: Path) -> None:
    for theme, size in (("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)):
        with browser.new_context(viewport=size, color_scheme=theme) as context:
            page = context.new_page()
            for name, place in PAGES.items():
                take(page, url, place, folder / f"{name}-{theme}-{size['width']}.png", whole=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--all", type=Path, metavar="FOLDER")
    arguments.add_argument("--url")
    given = arguments.parse_args()
    browser_file = os.environ.get("CHROMIUM") or shutil.which("chromium") or sys.exit("Chromium is not on the PATH")
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="meantime-pictures-")))
        url = given.url or opened.enter_context(shop(folder))
        playwright = opened.enter_context(sync_playwright())
        browser = opened.enter_context(playwright.chromium.launch(executable_path=browser_file, args=FLAGS))
        everything(browser, url, given.all) if given.all else pictures(browser, url)


if __name__ == "__main__":
    main()
