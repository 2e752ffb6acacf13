"""20,000 timers in half a minute; some are cancelled, Spark is killed in the middle; every other one fires once, in time.

Dispatchers take timers that are due soon straight from their requests, so the Spark job's absence makes none of them late.
"""

import random
import threading
import time
from dataclasses import dataclass, field

from rich.live import Live
from rich.text import Text

from meantime.sdk.calls.timers import TimerDraft
from meantime.sdk.client import Client
from meantime.tour.stage import TourStage

EVENT_TYPE = "tour.callbacks"
TIMERS = 20_000
CANCELLED = 200
FIRST_AFTER, SPREAD = 12, 20
LATENESS_MS = (25, 50, 100, 250, 1000, 2000, 10_000, 600_000)
LATEST_MS = 2000
SPARK_WITHIN = 600.0


@dataclass
class Callbacks:
    """What came back: how often each token, and how late."""

    seen: dict[str, int] = field(default_factory=dict)
    late_ms: list[float] = field(default_factory=list)
    unsure_ms: float = 0.0
    """How far off the reader's idea of cluster time may have been."""

    def follow(self, client: Client) -> None:
        for _ in range(10):
            client.clock()
        # One event a batch: a batch that is not full is held back for the flush timeout, and its events would look late.
        for batch in client.events(EVENT_TYPE, "begin", batch_limit=1):
            now_ms = client.now() * 1000
            self.unsure_ms = max(self.unsure_ms, client.core.drift.error_ms)
            for event in batch.events:
                token = event["token"]
                self.seen[token] = self.seen.get(token, 0) + 1
                self.late_ms.append(now_ms - event["due"] * 1000)


def play(stage: TourStage) -> None:
    stage.voice.chapter("Timers, on the second")
    stage.until("Spark, which has been starting since the beginning", lambda: stage.is_ready("futures"), SPARK_WITHIN)
    with Client(stage.urls, timeout=60) as client:
        client.create_event_type(EVENT_TYPE, partitions=2)
        callbacks = Callbacks()
        threading.Thread(target=callbacks.follow, args=(Client(stage.urls[1]),), daemon=True).start()
        timers = _set(stage, client)
        cancelled = _cancel(stage, client, timers)
        _watch(stage, callbacks, TIMERS - CANCELLED)
        _check(stage, callbacks, set(timers), cancelled)


def _set(stage: TourStage, client: Client) -> dict[str, int]:
    """Tokens and their seconds."""
    began, first = time.monotonic(), int(client.now()) + FIRST_AFTER
    timers = {f"tour-{number}": first + number % SPREAD for number in range(TIMERS)}
    drafts = [
        TimerDraft(f"event-type:{EVENT_TYPE}", {"token": token, "due": due}, at=due, token=token)
        for token, due in timers.items()
    ]
    for start in range(0, TIMERS, 5000):
        client.timer_many(drafts[start : start + 5000])
    stage.voice.fact(
        f"{TIMERS:,} timers set in {time.monotonic() - began:.1f} s; they are due within {FIRST_AFTER + SPREAD} s"
    )
    return timers


def _cancel(stage: TourStage, client: Client, timers: dict[str, int]) -> set[str]:
    late = [token for token, due in timers.items() if due > client.now() + 8]
    chosen = set(random.Random(7).sample(late, CANCELLED))
    for token in chosen:
        client.cancel(token, at=timers[token])
    stage.voice.fact(f"{CANCELLED} of them are cancelled")
    return chosen


def _watch(stage: TourStage, callbacks: Callbacks, expected: int, within: float = 240.0) -> None:
    stage.voice.say(
        "When a third has fired, the Spark job is killed with -9; the supervisor starts it again from its checkpoint."
    )
    deadline, killed = time.monotonic() + within, False
    with Live(console=stage.voice.console, auto_refresh=False, transient=True) as live:
        while len(callbacks.seen) < expected and time.monotonic() < deadline:
            if not killed and len(callbacks.seen) > expected // 3:
                stage.kill("futures")
                killed = True
            if stage.voice.console.is_terminal:
                live.update(_histogram(callbacks, expected), refresh=True)
            time.sleep(0.2)
    stage.voice.console.print(_histogram(callbacks, expected))


def _histogram(callbacks: Callbacks, expected: int) -> Text:
    late = list(callbacks.late_ms)
    lines, below = [f"{len(callbacks.seen):,} of {expected:,} fired; how late they reached a reader:"], 0
    for limit in LATENESS_MS:
        count = sum(1 for value in late if value <= limit) - below
        below += count
        lines.append(f"  ≤ {limit:>6,} ms {'▇' * round(40 * count / max(1, len(late)))} {count}")
    return Text("\n".join(lines))


def _check(stage: TourStage, callbacks: Callbacks, tokens: set[str], cancelled: set[str]) -> None:
    stage.check(set(callbacks.seen) == tokens - cancelled, "every timer fired, except those that were cancelled")
    stage.check(set(callbacks.seen.values()) == {1}, "none fired twice, although Spark was killed")
    earliest, latest, unsure = min(callbacks.late_ms), max(callbacks.late_ms), callbacks.unsure_ms
    stage.check(earliest >= -unsure, f"none was early: the first came {earliest:.1f} ms (± {unsure:.1f}) after its second")
    stage.check(
        latest <= LATEST_MS, f"none was later than {LATEST_MS // 1000} s: the last came {latest:.0f} ms after its second"
    )
