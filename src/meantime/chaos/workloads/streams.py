"""Streams in use: a publisher per partition, readers that never stop, and a switch of the storage every few seconds."""

import asyncio
import random
from collections.abc import Sequence
from uuid import uuid4

from meantime.chaos.actors import ChaosPublisher, ChaosReader
from meantime.chaos.checks.events import EVENTS, STREAMS, EventHistory, Read
from meantime.chaos.checks.model import controls
from meantime.chaos.histories import EventPartition, judge
from meantime.chaos.workloads.calls import ANSWER_WITHIN, Caller, odd
from meantime.chaos.workloads.model import SETTLE_WITHIN, Progress, Site, WorkloadVerdict, pause, together, until
from meantime.tasks import end

PARTITIONS = 2
PUBLISH_EVERY = 0.1
SWITCH_EVERY = (6.0, 14.0)
DURING, AFTERWARDS = "a reader that was there all the time", "a reader that came afterwards"


class StreamsWorkload:
    name = STREAMS

    def __init__(self, site: Site, event_types: int = 2) -> None:
        self._site = site
        self.progress = Progress()
        self.event_types = [f"{site.name}.events.{number}" for number in range(event_types)]
        self.switched = 0
        self.unfinished_switches: list[str] = []
        self._surprises: list[str] = []
        rng = site.rng(STREAMS)
        self._publishers = [
            ChaosPublisher(
                f"p{number}",
                EventPartition(name, partition),
                site.urls,
                rng,
                PUBLISH_EVERY,
                most=5,
                answer_within=ANSWER_WITHIN,
                noted=self.progress.note,
            )
            for number, (name, partition) in enumerate((n, p) for n in self.event_types for p in range(PARTITIONS))
        ]
        self._readers = self._new_readers(rng)
        self._again: list[ChaosReader] = []

    def _new_readers(self, rng: random.Random) -> list[ChaosReader]:
        return [ChaosReader(name, PARTITIONS, self._site.urls, rng) for name in self.event_types]

    async def prepare(self) -> None:
        async with Caller(self._site.urls, self._site.rng("declare"), self._site.headers) as caller:
            for name in self.event_types:
                made = await caller.insist("POST", "/event-types", event_type(name, PARTITIONS))
                if made.status_code not in (201, 409):
                    raise RuntimeError(odd("event type", made))

    async def run(self, stop: asyncio.Event) -> None:
        reading = [asyncio.create_task(reader.run()) for reader in self._readers]
        try:
            await together(stop, [*(publisher.run for publisher in self._publishers), self._switch])
            await self._complete(self._readers)
        finally:
            await end(*reading)

    async def settle(self) -> None:
        """Another reader reads everything from the beginning."""
        self._again = self._new_readers(self._site.rng("again"))
        reading = [asyncio.create_task(reader.run()) for reader in self._again]
        try:
            await self._complete(self._again)
        finally:
            await end(*reading)

    async def _complete(self, readers: Sequence[ChaosReader]) -> None:
        histories = [publisher.history for publisher in self._publishers]
        await until(lambda: not judge(histories, _merged(readers)).lost, SETTLE_WITHIN)
        await asyncio.sleep(1.0)

    async def _switch(self, stop: asyncio.Event) -> None:
        rng = self._site.rng("switches")
        storages = ["default", *(f"kafka-{number}" for number in range(2, len(self._site.places.kafka) + 1))]
        async with Caller(self._site.urls, rng, self._site.headers) as caller:
            while not stop.is_set():
                await pause(stop, rng.uniform(*SWITCH_EVERY))
                if not stop.is_set():
                    await self._switch_one(caller, rng.choice(self.event_types), rng.choice(storages))

    async def _switch_one(self, caller: Caller, name: str, storage: str) -> None:
        """Ask with one key until it is done: it must not happen twice, whoever is asked."""
        key = uuid4().hex

        async def done() -> bool:
            headers = {"Idempotency-Key": key}
            answer = await caller.call("POST", f"/event-types/{name}/timelines", {"storage_id": storage}, headers=headers)
            if answer is None:
                return False
            if answer.status_code not in (200, 201, 409, 503):
                self._surprises.append(odd("switch", answer))
            return answer.status_code in (200, 201)

        if await until(done, SETTLE_WITHIN):
            self.switched += 1
        else:
            self.unfinished_switches.append(f"a switch of {name} could not be done within {SETTLE_WITHIN:.0f} s")

    def verdict(self, rng: random.Random) -> WorkloadVerdict:
        actors: list[ChaosPublisher | ChaosReader] = [*self._publishers, *self._readers, *self._again]
        surprises = [*self._surprises, *(surprise for actor in actors for surprise in actor.surprises)]
        histories = tuple(publisher.history for publisher in self._publishers)
        read = {DURING: _merged(self._readers), AFTERWARDS: _merged(self._again)}
        history = EventHistory(histories, read, tuple(surprises))
        counts = {
            "acknowledged": sum(len(one.acknowledged) for one in histories),
            "without an answer": sum(len(one.unanswered) for one in histories),
            "read": sum(reader.count for reader in self._readers),
            "switches": self.switched,
        }
        return WorkloadVerdict(tuple(EVENTS.check(history)), tuple(controls(EVENTS, history, rng)), counts)


def event_type(name: str, partitions: int) -> dict[str, object]:
    return {
        "name": name,
        "owning_application": "chaos",
        "category": "undefined",
        "partition_strategy": "user_defined",
        "default_statistic": {"read_parallelism": partitions, "write_parallelism": partitions},
    }


def _merged(readers: Sequence[ChaosReader]) -> Read:
    return {target: marks for reader in readers for target, marks in reader.read.items()}
