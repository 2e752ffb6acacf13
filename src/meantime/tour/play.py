"""The order of the chapters, and the clean-up after them."""

import tempfile
import time
from pathlib import Path

import httpx

from meantime.stack.session import running
from meantime.tour import foundation, schedules, streams, timers, topics, workers
from meantime.tour.stage import TourStage, Voice

CHAPTERS = [foundation.play, streams.play, topics.play, schedules.play, workers.play, timers.play]


def play() -> None:
    """Take the whole tour; raises when something that it claims does not hold."""
    voice = Voice()
    started = time.monotonic()
    voice.console.rule("[bold]Meantime: an event broker with a sense of time", align="left")
    voice.say("A real ZooKeeper, two Kafkas, PostgreSQL, Spark and three nodes are started here, and stopped at the end.")
    with tempfile.TemporaryDirectory(prefix="meantime-tour-") as folder:
        data = Path(folder)
        with (
            # Spark, which only the last chapter needs, starts while the others are played.
            running(data, nodes=3, kafka=2, timers=True, wait_for_late=False, tell=voice.event) as places,
            httpx.Client(timeout=10, trust_env=False) as http,
        ):
            stage = TourStage(data, places, voice, http)
            for chapter in CHAPTERS:
                chapter(stage)
    voice.console.print()
    voice.console.rule("[bold]The end", align="left")
    voice.say(f"Everything is stopped and removed again. The tour took {time.monotonic() - started:.0f} s. Next: `make up`.")
