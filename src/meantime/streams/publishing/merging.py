"""Many publishers, one batch: what is published in one turn of the event loop to the same partition of the same event type
is sent as one batch, through the gate and back.

Nobody waits longer for that. Each publisher learns what became of its own events, and if not all of them were written it
goes on by itself. Events for different partitions are never put together: where a partition has no leader for a while, only
those who publish there wait for it. What is given up before its batch is sent is not sent.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from meantime.kafka.batch import RecordOutcome, Records
from meantime.streams.model import Timeline
from meantime.tasks import TaskSet

PART_EVENTS, PART_BYTES = 100, 64 * 1024
"""Who publishes more than that is sent alone."""
MOST_EVENTS, MOST_BYTES = 1000, 1 << 20
"""So much goes into one batch that is put together."""

Place = tuple[str, int, bool]
"""An event type and a partition of it; events with keys are not mixed with those without."""
Results = tuple[list[RecordOutcome], dict[int, str]]


class SentBatch(Protocol):
    """What became of a batch. `clean`: every event is written."""

    @property
    def clean(self) -> bool: ...

    def results(self) -> Results: ...


Sent = tuple[Timeline, SentBatch]
Send = Callable[[str, Records, float], Coroutine[Any, Any, Sent]]


_Part = tuple[Records, "asyncio.Future[Sent]"]
"""The events of one publisher, and where it is told of them."""


class _Gathering:
    """Those who will be sent together."""

    __slots__ = ("deadline", "events", "parts", "size")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.parts: list[_Part] = []
        self.events = self.size = 0


class _PartOfBatch:
    """What became of the events of one publisher, as a batch of its own."""

    def __init__(self, results: Results, first: int, count: int) -> None:
        outcomes, details = results
        self._outcomes = outcomes[first : first + count]
        self._details = {index - first: said for index, said in details.items() if first <= index < first + count}
        self.clean = all(outcome is RecordOutcome.WRITTEN for outcome in self._outcomes)

    def results(self) -> Results:
        return self._outcomes, self._details


class PublishMerger:
    """`send` sends a batch and returns when it is known what became of it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._gathering: dict[Place, _Gathering] = {}
        self._sending = TaskSet()

    @staticmethod
    def takes(records: Records) -> bool:
        """Whether they are few and go to one partition."""
        return len(records.counts) == 1 and len(records.values) <= PART_EVENTS and records.size <= PART_BYTES

    async def send(self, name: str, records: Records, deadline: float) -> Sent:
        place, loop = (name, records.partitions[0], bool(records.keys)), self._loop
        together = self._gathering.get(place)
        if together is None:
            together = self._gathering[place] = _Gathering(deadline)
            loop.call_soon(self._start, place)
        answer: asyncio.Future[Sent] = loop.create_future()
        together.parts.append((records, answer))
        together.events += len(records.values)
        together.size += records.size
        if together.events + PART_EVENTS > MOST_EVENTS or together.size + PART_BYTES > MOST_BYTES:
            self._start(place)
        return await answer

    def _start(self, place: Place) -> None:
        together = self._gathering.pop(place, None)
        if together is not None:
            self._sending.start(self._send_together(place[0], together), name="publish together")

    async def _send_together(self, name: str, together: _Gathering) -> None:
        parts = [part for part in together.parts if not part[1].done()]
        if not parts:
            return
        try:
            timeline, batch = await self._send(name, _joined(parts), together.deadline)
        except asyncio.CancelledError:
            for _, answer in parts:
                answer.cancel()
            raise
        except Exception as error:
            for _, answer in parts:
                if not answer.done():
                    answer.set_exception(error)
            return
        _tell(parts, timeline, batch)


def _joined(parts: Sequence[_Part]) -> Records:
    if len(parts) == 1:
        return parts[0][0]
    values = [value for records, _ in parts for value in records.values]
    keys = [key for records, _ in parts for key in records.keys]
    partition, size = parts[0][0].partitions[0], sum(records.size for records, _ in parts)
    return Records(values, [partition] * len(values), keys, size, {partition: len(values)})


def _tell(parts: Sequence[_Part], timeline: Timeline, batch: SentBatch) -> None:
    results = None if batch.clean or len(parts) == 1 else batch.results()
    whole, first = (timeline, batch), 0
    for records, answer in parts:
        count = len(records.values)
        if not answer.done():
            answer.set_result(whole if results is None else (timeline, _PartOfBatch(results, first, count)))
        first += count
