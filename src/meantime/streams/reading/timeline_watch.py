"""The timelines of event types, watched once for all streams of a node."""

import asyncio
from functools import partial
from typing import Protocol

from meantime.errors import NotFound, Unavailable
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.supervision import supervised
from meantime.tasks import start

RETRY_EVERY = 0.5


class TimelineListener(Protocol):
    def timelines_changed(self, name: str, entry: CatalogEntry | None) -> None:
        """The event type as it is now; None when it was deleted."""


class _Watch:
    def __init__(self, entry: CatalogEntry) -> None:
        self.entry = entry
        self.listeners: set[TimelineListener] = set()
        self.task: asyncio.Task[None] | None = None


class TimelineWatches:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._watches: dict[str, _Watch] = {}

    def listen(self, name: str, entry: CatalogEntry, listener: TimelineListener) -> CatalogEntry:
        """Tell the listener of every change after the entry that is returned, which may be newer than the one given."""
        watch = self._watches.get(name)
        if watch is None:
            watch = self._watches[name] = _Watch(entry)
            following = supervised(partial(self._follow, name, watch), "timelines of an event type", name)
            watch.task = start(following, f"timelines of {name}")
        watch.listeners.add(listener)
        return watch.entry if watch.entry.read_at > entry.read_at else entry

    def leave(self, name: str, listener: TimelineListener) -> None:
        watch = self._watches.get(name)
        if watch is None:
            return
        watch.listeners.discard(listener)
        if not watch.listeners:
            del self._watches[name]
            if watch.task is not None:
                watch.task.cancel()

    async def _follow(self, name: str, watch: _Watch) -> None:
        while True:
            try:
                await self._catalog.wait_for_change(name, watch.entry.timelines)
                entry = await self._catalog.entry(name)
            except NotFound:
                break
            except Unavailable:
                await asyncio.sleep(RETRY_EVERY)
                continue
            self._tell(name, watch, entry)
            watch.entry = entry
        if self._watches.get(name) is watch:
            del self._watches[name]
        self._tell(name, watch, None)

    def _tell(self, name: str, watch: _Watch, entry: CatalogEntry | None) -> None:
        """One that fails keeps no other from hearing; all are told again, which changes nothing for those who know."""
        failures = []
        for listener in list(watch.listeners):
            try:
                listener.timelines_changed(name, entry)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]
