"""How many firings are to come, slot by slot: what is not set yet, and so is no message or timer.

Equal calendars are counted once. Rhythms are counted without walking through them; of other calendars so many instants are
walked through as a look may cost, and what lies beyond is spread evenly at the rate seen so far.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from meantime.database.pool import Database
from meantime.database.queries import load
from meantime.schedules.calendar import EveryCalendar, calendar_of
from meantime.schedules.model import EVENT_TYPE, KAFKA_TOPIC, TOPIC, Recurrence

MOST_GROUPS = 20_000
MOST_WALKED = 200_000
"""Instants of all calendars together."""
MOST_OF_ONE = 10_000


@dataclass(frozen=True, slots=True)
class EqualSchedules:
    """`count` schedules with one calendar, of which the next firing is at `next_at_ms` and at most `left` are to come."""

    recurrence: Recurrence
    next_at_ms: int
    left: int | None
    count: int


def slots_of(groups: Sequence[EqualSchedules], from_ms: int, to_ms: int, step_ms: int) -> Counter[int]:
    """How many firings there are in each slot."""
    counts: Counter[int] = Counter()
    most = max(100, min(MOST_OF_ONE, MOST_WALKED // max(1, len(groups))))
    for group in groups:
        _count(counts, group, max(from_ms, group.next_at_ms), from_ms, to_ms, step_ms, most)
    return counts


def _count(
    counts: Counter[int], group: EqualSchedules, start_ms: int, from_ms: int, to_ms: int, step_ms: int, most: int
) -> None:
    calendar = calendar_of(group.recurrence)
    if isinstance(calendar.calendar, EveryCalendar) and group.left is None:
        _count_rhythm(counts, group, calendar.calendar, (start_ms, from_ms, to_ms, step_ms))
        return
    first_ms = group.next_at_ms if group.left is not None else start_ms
    walked = 0
    for walked, occurrence in enumerate(calendar.after(first_ms - 1), start=1):
        if occurrence.at_ms >= to_ms or (group.left is not None and walked > group.left):
            return
        if occurrence.at_ms >= from_ms:
            counts[(occurrence.at_ms - from_ms) // step_ms] += group.count
        if walked >= most:
            per_ms = group.count * walked / max(1, occurrence.at_ms - first_ms)
            _spread(counts, per_ms, occurrence.at_ms + 1, from_ms, to_ms, step_ms)
            return


def _spread(counts: Counter[int], per_ms: float, start_ms: int, from_ms: int, to_ms: int, step_ms: int) -> None:
    """At an even rate from an instant on."""
    for slot in range(max(0, (start_ms - from_ms) // step_ms), -((from_ms - to_ms) // step_ms)):
        begin_ms, end_ms = max(start_ms, from_ms + slot * step_ms), min(to_ms, from_ms + (slot + 1) * step_ms)
        counts[slot] += round(per_ms * max(0, end_ms - begin_ms))


def _count_rhythm(
    counts: Counter[int], group: EqualSchedules, calendar: EveryCalendar, span: tuple[int, int, int, int]
) -> None:
    start_ms, from_ms, to_ms, step_ms = span
    ends_at_ms = group.recurrence.ends_at_ms
    end_ms = to_ms if ends_at_ms is None else min(to_ms, ends_at_ms)
    for slot in range(max(0, (start_ms - from_ms) // step_ms), -((from_ms - end_ms) // step_ms)):
        begin_ms = max(start_ms, from_ms + slot * step_ms)
        until_ms = min(end_ms, from_ms + (slot + 1) * step_ms)
        first_ms = calendar.following(begin_ms - 1)
        if first_ms < until_ms:
            counts[slot] += group.count * ((until_ms - 1 - first_ms) // calendar.every_ms + 1)


class ScheduleForecast:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load("meantime.schedules", "store.sql")

    async def of_topic(self, topic: str, from_ms: int, to_ms: int, step_ms: int) -> Counter[int]:
        label = f"{TOPIC}:{topic}"
        return await self._slots([(label, label)], from_ms, to_ms, step_ms)

    async def of_timers(self, from_ms: int, to_ms: int, step_ms: int) -> Counter[int]:
        labels = [(f"{kind}:", f"{kind};") for kind in (EVENT_TYPE, KAFKA_TOPIC)]
        return await self._slots(labels, from_ms, to_ms, step_ms)

    async def _slots(self, labels: list[tuple[str, str]], from_ms: int, to_ms: int, step_ms: int) -> Counter[int]:
        groups = [group for first, last in labels for group in await self._groups(first, last, to_ms)]
        if not groups:
            return Counter()
        return await asyncio.to_thread(slots_of, groups, from_ms, to_ms, step_ms)

    async def _groups(self, first: str, last: str, to_ms: int) -> list[EqualSchedules]:
        params = {"first": first, "last": last, "to_ms": to_ms, "limit": MOST_GROUPS}
        rows = await self._database.fetch_all(self._sql["ahead_of_target"], params)
        return [
            EqualSchedules(
                msgspec.convert(row["recurrence"], Recurrence),
                row["next_at_ms"],
                None if row["max_firings"] is None else row["max_firings"] - row["firings"],
                row["schedules"],
            )
            for row in rows
        ]
