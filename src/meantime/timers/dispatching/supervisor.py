"""A dispatcher's life: the fast hand in a thread of its own, taken up again whenever it has to be put down.

A hand that meets something it cannot mend (it was replaced, Kafka was away for too long) is put down; the next one starts
from what Kafka knows.
"""

import asyncio
import threading
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException

from meantime.clock import Clock
from meantime.errors import MeantimeError, StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.runtime import spare_collector
from meantime.timers.dispatching.background_work import Desk
from meantime.timers.dispatching.consumers import DueTopic, RequestTopic
from meantime.timers.dispatching.dispatcher import Dispatcher, DispatcherOptions, Lines
from meantime.timers.dispatching.done_consumer import DoneTopic
from meantime.timers.dispatching.transaction import Firing
from meantime.timers.kafka_topics import admin_of, existing_topics
from meantime.timers.ledger.store import LedgerStore

log = structlog.get_logger(__name__)

REPORT_EVERY = 1.0
AGAIN_AFTER = 0.5


@dataclass(frozen=True, slots=True)
class Station:
    """Where a dispatcher works, and under which name. The name must be its own: a second one replaces the first."""

    name: str
    storage: Storage
    clock: Clock
    options: DispatcherOptions


class Hands:
    """One hand after another, until `stop`."""

    def __init__(self, station: Station, desk: Desk) -> None:
        self._station = station
        self._desk = desk
        self._stop = threading.Event()
        self._hand: Dispatcher | None = None
        self.turning = False
        """Whether a hand is turning; it finishes its step after the end of `run`."""

    async def run(self) -> None:
        """For ever; cancelling it lets the hand finish its step."""
        # Hundreds of thousands of held timers are no garbage, and looking through them takes the time of a whole volley.
        spare_collector(100_000, 10_000, 10_000)
        try:
            while True:
                await self._desk.clear()
                await self._desk.look_at_join()
                await asyncio.to_thread(self._turn)
                await asyncio.sleep(AGAIN_AFTER)
        finally:
            self._stop.set()
            await self._desk.clear()

    async def report(self, ledger: LedgerStore) -> None:
        """Say how it goes, every second, for ever."""
        while True:
            await asyncio.sleep(REPORT_EVERY)
            if self._hand is not None:
                try:
                    await ledger.report(self._station.name, self._station.clock.now_ms(), self._hand.report)
                except StorageUnavailable:
                    log.debug("report_not_written")

    def _turn(self) -> None:
        self.turning = True
        try:
            self._turn_once()
        except KafkaException as error:
            log.warning("hand_put_down", error=error.args[0].str())
        except MeantimeError as error:
            log.warning("hand_put_down", error=error.detail)
        finally:
            self.turning = False

    def _turn_once(self) -> None:
        station, storage = self._station, self._station.storage
        admin = admin_of(storage)
        firing = Firing(storage, station.name, station.clock, station.options.limits.max_request_bytes + 65_536)
        due = DueTopic(storage, station.name)
        requests, done = RequestTopic(storage), DoneTopic(storage)
        try:
            lines = Lines(due, requests, done, firing)
            topics = lambda: existing_topics(admin)  # noqa: E731 - a question, not a function of this module
            self._hand = Dispatcher(lines, self._desk, topics, station.clock, station.options)
            self._hand.run(self._stop)
        finally:
            for part in (due, requests, done, firing):
                part.close()
