"""Timelines are watched once for all streams of a node, and every stream hears of every change."""

import asyncio
from dataclasses import replace
from typing import Any, cast

from meantime.errors import NotFound
from meantime.streams.catalog.catalog import CatalogEntry
from meantime.streams.model import EventType, Timeline
from meantime.streams.reading.timeline_watch import TimelineWatches

TIMELINE = Timeline(None, "orders", 1, "default", "orders.1", 1, 0)
EVENT_TYPE = EventType("orders", "undefined", "random", (), 1, 1, "delete", None, {})


def entry(timelines: int, read_at: float) -> CatalogEntry:
    return CatalogEntry(EVENT_TYPE, tuple(replace(TIMELINE, order=order + 1) for order in range(timelines)), read_at)


class KnownCatalog:
    """A catalog that knows what it is told, and counts who waits."""

    def __init__(self, known: CatalogEntry) -> None:
        self.known: CatalogEntry | None = known
        self.waits = 0
        self._changed = asyncio.Event()

    def change(self, known: CatalogEntry | None) -> None:
        self.known = known
        self._changed.set()
        self._changed = asyncio.Event()

    async def entry(self, name: str) -> CatalogEntry:
        if self.known is None:
            raise NotFound(name)
        return self.known

    async def wait_for_change(self, name: str, timelines: tuple[Timeline, ...]) -> None:
        while (await self.entry(name)).timelines == timelines:
            self.waits += 1
            await self._changed.wait()
            self.waits -= 1


class Listener:
    def __init__(self, fails: int = 0) -> None:
        self.heard: list[int | None] = []
        self._fails = fails

    def timelines_changed(self, name: str, entry: CatalogEntry | None) -> None:
        if self._fails:
            self._fails -= 1
            raise RuntimeError("not now")
        self.heard.append(None if entry is None else len(entry.timelines))


async def until(listener: Listener, heard: int | None) -> None:
    async with asyncio.timeout(30):
        while heard not in listener.heard:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_one_watch_serves_all_and_ends_with_the_last() -> None:
    catalog = KnownCatalog(entry(1, 1.0))
    watches, listeners = TimelineWatches(cast(Any, catalog)), [Listener() for _ in range(3)]
    for listener in listeners:
        assert watches.listen("orders", entry(1, 1.0), listener) == entry(1, 1.0)
    await asyncio.sleep(0)
    assert catalog.waits == 1
    catalog.change(entry(2, 2.0))
    for listener in listeners:
        await until(listener, 2)
    for listener in listeners:
        watches.leave("orders", listener)
    await asyncio.sleep(0.01)
    assert watches._watches == {}


async def test_whoever_comes_with_old_knowledge_is_given_what_the_others_know() -> None:
    catalog = KnownCatalog(entry(1, 1.0))
    watches, first, late = TimelineWatches(cast(Any, catalog)), Listener(), Listener()
    watches.listen("orders", entry(1, 1.0), first)
    catalog.change(entry(2, 2.0))
    await until(first, 2)
    assert watches.listen("orders", entry(1, 1.5), late) == entry(2, 2.0)
    assert watches.listen("orders", entry(3, 3.0), late) == entry(3, 3.0)


async def test_one_that_fails_keeps_no_other_from_hearing_and_is_told_again() -> None:
    catalog = KnownCatalog(entry(1, 1.0))
    watches, failing, well = TimelineWatches(cast(Any, catalog)), Listener(fails=1), Listener()
    for listener in (failing, well):
        watches.listen("orders", entry(1, 1.0), listener)
    catalog.change(entry(2, 2.0))
    await until(well, 2)
    await until(failing, 2)


async def test_all_are_told_when_the_event_type_is_deleted_and_it_may_come_back() -> None:
    catalog = KnownCatalog(entry(1, 1.0))
    watches, listeners = TimelineWatches(cast(Any, catalog)), [Listener() for _ in range(2)]
    for listener in listeners:
        watches.listen("orders", entry(1, 1.0), listener)
    await asyncio.sleep(0)
    catalog.change(None)
    for listener in listeners:
        await until(listener, None)
    catalog.change(entry(1, 5.0))
    again = Listener()
    watches.listen("orders", entry(1, 5.0), again)
    catalog.change(entry(2, 6.0))
    await until(again, 2)
