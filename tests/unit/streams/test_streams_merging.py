"""What is published in one turn of the loop goes together, and each publisher learns what became of its own events."""

import asyncio
from typing import Any

import pytest

from meantime.errors import Unavailable
from meantime.kafka.batch import RecordOutcome, Records
from meantime.streams.publishing.merging import MOST_EVENTS, PART_EVENTS, PublishMerger

W, R = RecordOutcome.WRITTEN, RecordOutcome.REFUSED
LATER = 1e9


class Batch:
    def __init__(self, outcomes: list[RecordOutcome]) -> None:
        self.outcomes = outcomes
        self.clean = R not in outcomes

    def results(self) -> tuple[list[RecordOutcome], dict[int, str]]:
        return self.outcomes, {index: f"no {index}" for index, outcome in enumerate(self.outcomes) if outcome is R}


class Storage:
    """Writes all but what it refuses, when it is let."""

    def __init__(self, *refused: bytes, error: Exception | None = None) -> None:
        self.sent: list[tuple[str, Records]] = []
        self.refused = refused
        self.error = error
        self.reached = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def send(self, name: str, records: Records, deadline: float) -> Any:
        self.sent.append((name, records))
        self.reached.set()
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return "timeline", Batch([R if value in self.refused else W for value in records.values])


def one(value: bytes, partition: int = 0, key: bytes | None = None) -> Records:
    return Records.of([value], [partition], [key] if key else ())


async def test_one_turn_is_one_batch_in_order() -> None:
    storage = Storage()
    merger = PublishMerger(storage.send)
    two = Records.of([b"b", b"c"], [0, 0])
    found = await asyncio.gather(*(merger.send("a", records, LATER) for records in (one(b"a"), two, one(b"d"))))
    assert [timeline for timeline, _ in found] == ["timeline"] * 3
    assert all(batch.clean for _, batch in found)
    ((name, records),) = storage.sent
    assert (name, records) == ("a", Records.of([b"a", b"b", b"c", b"d"], [0, 0, 0, 0], []))


async def test_event_types_partitions_and_events_with_keys_are_not_mixed() -> None:
    storage = Storage()
    merger = PublishMerger(storage.send)
    sent = [("a", one(b"1")), ("b", one(b"2")), ("a", one(b"3", 1)), ("a", one(b"4", key=b"k")), ("a", one(b"5"))]
    await asyncio.gather(*(merger.send(name, records, LATER) for name, records in sent))
    assert [(name, records.values) for name, records in storage.sent] == [
        ("a", [b"1", b"5"]),
        ("b", [b"2"]),
        ("a", [b"3"]),
        ("a", [b"4"]),
    ]
    assert list(storage.sent[3][1].keys) == [b"k"]


async def test_each_learns_of_its_own_events() -> None:
    storage = Storage(b"c")
    merger = PublishMerger(storage.send)
    two = Records.of([b"b", b"c"], [0, 0])
    (_, first), (_, second) = await asyncio.gather(merger.send("a", one(b"a"), LATER), merger.send("a", two, LATER))
    assert (first.clean, first.results()) == (True, ([W], {}))
    assert (second.clean, second.results()) == (False, ([W, R], {1: "no 2"}))


async def test_an_error_goes_to_all() -> None:
    merger = PublishMerger(Storage(error=Unavailable("later")).send)
    found = await asyncio.gather(*(merger.send("a", one(b"a"), LATER) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in found] == [Unavailable] * 3


async def test_what_is_given_up_before_it_is_sent_is_not_sent_and_hurts_no_other() -> None:
    storage = Storage()
    merger = PublishMerger(storage.send)
    given_up = asyncio.create_task(merger.send("a", one(b"a"), LATER))
    other = asyncio.create_task(merger.send("a", one(b"b"), LATER))
    await asyncio.sleep(0)
    given_up.cancel()
    assert (await other)[1].clean
    assert [records.values for _, records in storage.sent] == [[b"b"]]
    with pytest.raises(asyncio.CancelledError):
        await given_up


async def test_what_is_given_up_later_hurts_no_other() -> None:
    storage = Storage()
    storage.answers.clear()
    merger = PublishMerger(storage.send)
    publishing = [asyncio.create_task(merger.send("a", one(b"%d" % n), LATER)) for n in range(3)]
    await storage.reached.wait()
    publishing[0].cancel()
    storage.answers.set()
    found = await asyncio.gather(*publishing, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [sent[1].clean for sent in found[1:] if not isinstance(sent, BaseException)] == [True, True]


async def test_there_is_a_limit_to_what_goes_together() -> None:
    storage = Storage()
    merger = PublishMerger(storage.send)
    many = Records.of([b"x"] * PART_EVENTS, [0] * PART_EVENTS)
    assert merger.takes(many)
    assert not merger.takes(Records.of([b"x"] * (PART_EVENTS + 1), [0] * (PART_EVENTS + 1)))
    assert not merger.takes(Records.of([b"x", b"y"], [0, 1]))
    await asyncio.gather(*(merger.send("a", many, LATER) for _ in range(15)))
    assert sum(len(records.values) for _, records in storage.sent) == 15 * PART_EVENTS
    assert all(len(records.values) <= MOST_EVENTS for _, records in storage.sent)
