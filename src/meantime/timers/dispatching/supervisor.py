"""Runs a dispatcher in a thread of its own, and starts another one whenever it fails.

A dispatcher that meets something it cannot mend (it was replaced, Kafka was away for too long) is given up; the next one
starts from what Kafka knows.
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
from meantime.timers.dispatching.background_work import BackgroundWork
from meantime.timers.dispatching.consumers import DueConsumer, RequestConsumer
from meantime.timers.dispatching.dispatcher import DispatcherClients, TimerDispatcher
from meantime.timers.dispatching.dispatcher_options import DispatcherOptions
from meantime.timers.dispatching.done_consumer import DoneConsumer
from meantime.timers.dispatching.transaction import FiringTransaction
from meantime.timers.kafka_topics import admin_of, existing_topics
from meantime.timers.ledger.store import LedgerStore

log = structlog.get_logger(__name__)

REPORT_EVERY = 1.0
AGAIN_AFTER = 0.5


@dataclass(frozen=True, slots=True)
class DispatcherSetup:
    """What a dispatcher is made of. The name must be its own: a second one replaces the first."""

    name: str
    storage: Storage
    clock: Clock
    options: DispatcherOptions


class DispatcherSupervisor:
    """One dispatcher after another, until `run` is cancelled."""

    def __init__(self, setup: DispatcherSetup, background: BackgroundWork) -> None:
        self._setup = setup
        self._background = background
        self._stop = threading.Event()
        self._dispatcher: TimerDispatcher | None = None
        self.running = False
        """Whether a dispatcher is at work; it finishes its step after the end of `run`."""

    async def run(self) -> None:
        """For ever; cancelling it lets the dispatcher finish its step."""
        # Hundreds of thousands of held timers are no garbage, and looking through them takes as long as firing them.
        spare_collector(100_000, 10_000, 10_000)
        try:
            while True:
                await self._background.clear()
                await self._background.read_join_report()
                await asyncio.to_thread(self._run_dispatcher)
                await asyncio.sleep(AGAIN_AFTER)
        finally:
            self._stop.set()
            await self._background.clear()

    async def report(self, ledger: LedgerStore) -> None:
        """Say how it goes, every second, for ever."""
        while True:
            await asyncio.sleep(REPORT_EVERY)
            if self._dispatcher is not None:
                try:
                    await ledger.report(self._setup.name, self._setup.clock.now_ms(), self._dispatcher.report)
                except StorageUnavailable:
                    log.debug("report_not_written")

    def _run_dispatcher(self) -> None:
        self.running = True
        try:
            self._run_once()
        except KafkaException as error:
            log.warning("dispatcher_failed", error=error.args[0].str())
        except MeantimeError as error:
            log.warning("dispatcher_failed", error=error.detail)
        finally:
            self.running = False

    def _run_once(self) -> None:
        setup, storage = self._setup, self._setup.storage
        admin = admin_of(storage)
        transaction = FiringTransaction(storage, setup.name, setup.clock, setup.options.limits.max_request_bytes + 65_536)
        due = DueConsumer(storage, setup.name)
        requests, done = RequestConsumer(storage), DoneConsumer(storage)
        try:
            clients = DispatcherClients(due, requests, done, transaction)
            topics = lambda: existing_topics(admin)  # noqa: E731 - a question, not a function of this module
            self._dispatcher = TimerDispatcher(clients, self._background, topics, setup.clock, setup.options)
            self._dispatcher.run(self._stop)
        finally:
            for part in (due, requests, done, transaction):
                part.close()
