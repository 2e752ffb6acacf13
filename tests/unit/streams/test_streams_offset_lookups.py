"""Questions to Kafka that many ask at the same time: one request for all of them, and no answer older than its question."""

import asyncio
from typing import Any, cast

import pytest

from meantime.errors import StorageUnavailable
from meantime.streams.model import Timeline
from meantime.streams.reading.offsets import OffsetLookups

TIMELINE = Timeline(None, "orders", 1, "default", "orders.1", 1, 0)


class CountingAdmin:
    """Answers when it is let; each answer is the number of its question."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def end_offsets(self, topic: str, partitions: int) -> list[int]:
        self.asked += 1
        number = self.asked
        if (error := await self.answers.get()) is not None:
            raise error
        return [number]

    start_offsets = end_offsets

    def of(self, _: object) -> "CountingAdmin":
        return self

    def storage(self, id: str) -> str:
        return id


def lookups() -> tuple[OffsetLookups, CountingAdmin]:
    admin = CountingAdmin()
    return OffsetLookups(cast(Any, admin), cast(Any, admin)), admin


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_who_ask_at_once_share_one_request_and_later_ones_the_next() -> None:
    asking, admin = lookups()
    first = [asyncio.create_task(asking.ends(TIMELINE)) for _ in range(100)]
    await turns()
    later = [asyncio.create_task(asking.ends(TIMELINE)) for _ in range(100)]
    await turns()
    assert admin.asked == 1
    for _ in range(2):
        admin.answers.put_nowait(None)
    assert await asyncio.gather(*first) == [[1]] * 100
    assert await asyncio.gather(*later) == [[2]] * 100


async def test_beginnings_and_ends_are_different_questions() -> None:
    asking, admin = lookups()
    both = [asyncio.create_task(asking.ends(TIMELINE)), asyncio.create_task(asking.starts(TIMELINE))]
    await turns()
    assert admin.asked == 2
    for _ in both:
        admin.answers.put_nowait(None)
    await asyncio.gather(*both)


async def test_a_failure_is_told_to_those_who_share_it_and_the_next_question_is_asked() -> None:
    asking, admin = lookups()
    admin.answers.put_nowait(StorageUnavailable("gone"))
    admin.answers.put_nowait(None)
    first = asyncio.create_task(asking.ends(TIMELINE))
    await turns()
    second = asyncio.create_task(asking.ends(TIMELINE))
    with pytest.raises(StorageUnavailable):
        await first
    assert await second == [2]


async def test_one_who_stops_waiting_takes_the_answer_from_nobody() -> None:
    asking, admin = lookups()
    gone, stays = (asyncio.create_task(asking.ends(TIMELINE)) for _ in range(2))
    await turns()
    gone.cancel()
    admin.answers.put_nowait(None)
    assert await stays == [1]
