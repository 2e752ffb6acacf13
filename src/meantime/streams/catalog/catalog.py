"""What a node knows of event types, timelines and storages: PostgreSQL's answer, kept while it is known to be fresh.

The invariant: an entry is used only while the node would be notified of a change. PostgreSQL notifies every change; when
the listener is not connected, nothing is kept and every question is asked anew. A change that arrives while an answer is
under way makes that answer worthless, and the question is asked again. Entries also expire by themselves, in case a
connection died without telling: then one question for all of them together tells which have changed.

Publishing does not need PostgreSQL: while it does not answer, publishers go by what was last known of their event type. Of a
switch they hear by ZooKeeper, and a topic that was left refuses them; so all that they can miss is a change of the
declaration, for as long as this node does not reach the database.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from meantime.errors import NotFound
from meantime.kafka.settings import Storage
from meantime.names import EVENT_TYPE
from meantime.pulse import Pulse
from meantime.streams.catalog.store import EVENT_TYPES_CHANNEL, STORAGES_CHANNEL, Store
from meantime.streams.model import EventType, Timeline
from meantime.tasks import PatientCalls, SharedCalls

_HEAR_WITHIN = 0.5


class ChangeNotifications(Protocol):
    """The part of `database.listener.Listener` that is used here."""

    connected: bool

    def subscribe(self, channel: str, subscriber: "Subscriber") -> None: ...


class Subscriber(Protocol):
    def __call__(self, payload: str | None, /) -> None: ...


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    event_type: EventType
    timelines: tuple[Timeline, ...]
    read_at: float
    row_versions: str = ""

    @property
    def active(self) -> Timeline:
        return self.timelines[-1]


class Catalog:
    def __init__(self, store: Store, news: ChangeNotifications, *, keep_for: float = 10.0, look_every: float = 2.0) -> None:
        self._store = store
        self._news = news
        self._keep_for = keep_for
        self._look_every = look_every
        self._entries: dict[str, CatalogEntry] = {}
        self._last: dict[str, CatalogEntry] = {}
        """What was read last, however long ago, unless a change of it was told."""
        self._generations: dict[str, int] = {}
        self._generation = 0
        self._changes: dict[str, asyncio.Event] = {}
        self._expected: dict[str, asyncio.Event] = {}
        self._storages: dict[str, Storage] = {}
        self._readings = SharedCalls(self._fresh)
        self._patient_readings = PatientCalls(self._fresh)
        self._renewals = SharedCalls(self._renew)
        self._storages_stale = True
        self.storages_changed = Pulse()
        news.subscribe(EVENT_TYPES_CHANNEL, self._on_event_type_changed)
        news.subscribe(STORAGES_CHANNEL, self._on_storages_changed)

    async def event_type(self, name: str) -> EventType:
        return (await self.entry(name)).event_type

    async def timelines(self, name: str) -> tuple[Timeline, ...]:
        """All of them in order, closed and cleaned-up ones too; the fake one where the database has none."""
        return (await self.entry(name)).timelines

    async def entry(self, name: str) -> CatalogEntry:
        known = self.known(name)
        if known is not None:
            return known
        return await (self._readings.ask(name) if self._news.connected else self.reload(name))

    def known(self, name: str) -> CatalogEntry | None:
        """What need not be asked for, because it has been read and nobody has told of a change."""
        known = self._entries.get(name)
        if known is not None and self._news.connected and time.monotonic() - known.read_at < self._keep_for:
            return known
        return None

    async def for_publishing(self, name: str) -> CatalogEntry:
        """What publishers go by: what was last known of it, while PostgreSQL does not answer."""
        known = self.known(name)
        if known is not None:
            return known
        last = self._last.get(name)
        return await (self.entry(name) if last is None else self._patient_readings.ask(name, last))

    async def reload(self, name: str) -> CatalogEntry:
        """Ask PostgreSQL, whatever is known."""
        if not EVENT_TYPE.fullmatch(name):
            raise NotFound(f"event type {name[:255]!r} does not exist")
        while True:
            before = self._generation_of(name)
            read_at = time.monotonic()
            found = await self._store.event_type(name)
            entry = CatalogEntry(found[0], found[1], read_at, found[2]) if found else None
            if entry is not None:
                await self._know_storages(entry)
            # Nothing is awaited between this look and remembering: what came meanwhile is newer.
            if before == self._generation_of(name):
                break
        if entry is None:
            self._forget(name)
            self._last.pop(name, None)
            raise NotFound(f"event type {name!r} does not exist")
        self._remember(name, entry)
        return entry

    async def _fresh(self, name: str) -> CatalogEntry:
        """Ask PostgreSQL, but read again only what has changed."""
        if name in self._entries and self._news.connected:
            await self._renewals.ask("all")
            if (known := self.known(name)) is not None:
                return known
        return await self.reload(name)

    async def _renew(self, _: str) -> None:
        """Let entries that are about to expire count as read now, if they are as they were: one question for all, so that
        it matters little how many there are."""
        read_at = time.monotonic()
        old = {name: entry for name, entry in self._entries.items() if read_at - entry.read_at >= self._keep_for / 2}
        versions = await self._store.row_versions(old)
        for name, entry in old.items():
            if self._entries.get(name) is not entry:
                continue  # a change was told meanwhile, or somebody has read it again
            if versions.get(name) == entry.row_versions:
                self._remember(name, replace(entry, read_at=read_at))
            else:
                self.forget(name)

    async def wait_for_change(self, name: str, known: tuple[Timeline, ...]) -> None:
        """Return when the timelines are no longer `known`, or the event type is gone."""
        while True:
            changed = self._changes.setdefault(name, asyncio.Event())
            try:
                if (await self.entry(name)).timelines != known:
                    return
            except NotFound:
                return
            await _heard(changed, self._look_every)

    async def changed(self, name: str, within: float) -> None:
        """Return when a change of the event type is told, or after so many seconds."""
        await _heard(self._changes.setdefault(name, asyncio.Event()), within)

    def storage(self, id: str) -> Storage:
        """A storage that some timeline read here lives in, or any other that is registered."""
        try:
            return self._storages[id]
        except KeyError:
            raise NotFound(f"storage {id!r} does not exist") from None

    def default_storage(self) -> Storage:
        for storage in self._storages.values():
            if storage.default:
                return storage
        raise NotFound("there is no default storage")

    async def reload_storages(self) -> tuple[Storage, ...]:
        self._storages_stale = False
        storages = await self._store.storages()
        self._storages = {storage.id: storage for storage in storages}
        return storages

    @asynccontextmanager
    async def announced(self, name: str) -> AsyncIterator[None]:
        """Make a change in the block, and leave when this node was notified of it: so were the others, then."""
        noticed = self._expected.setdefault(name, asyncio.Event())
        try:
            yield
            if self._news.connected:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HEAR_WITHIN):
                        await noticed.wait()
        finally:
            self._expected.pop(name, None)

    def forget(self, name: str) -> None:
        """What is known of this event type may be wrong: ask again, and tell those who wait for a change."""
        self._generations[name] = self._generations.get(name, 0) + 1
        self._last.pop(name, None)
        self._forget(name)

    def _generation_of(self, name: str) -> tuple[int, int]:
        return self._generation, self._generations.get(name, 0)

    def _remember(self, name: str, entry: CatalogEntry) -> None:
        """Of two answers that were asked for at the same time the later one stays."""
        last = self._last.get(name)
        if last is None or last.read_at <= entry.read_at:
            self._last[name] = entry
            if self._news.connected:
                self._entries[name] = entry

    def _forget(self, name: str) -> None:
        self._entries.pop(name, None)
        changed = self._changes.pop(name, None)
        if changed is not None:
            changed.set()

    async def _know_storages(self, entry: CatalogEntry) -> None:
        used = {timeline.storage_id for timeline in entry.timelines if not timeline.deleted}
        if self._storages_stale or not used <= self._storages.keys():
            await self.reload_storages()

    def _on_event_type_changed(self, name: str | None, /) -> None:
        if name is not None:
            self.forget(name)
            if name in self._expected:
                self._expected.pop(name).set()
            return
        self._generation += 1
        for known in {*self._entries, *self._changes}:
            self._forget(known)

    def _on_storages_changed(self, _: str | None, /) -> None:
        self._storages_stale = True
        self.storages_changed.beat()
        self._on_event_type_changed(None)


async def _heard(changed: asyncio.Event, within: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await changed.wait()
