"""The schedules of a node: the objects that decide, and how they are put together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from meantime.clock import Clock
from meantime.coordination.election import Election
from meantime.coordination.session import Session
from meantime.database.pool import Database
from meantime.schedules.changing import Changing
from meantime.schedules.firing import Firings
from meantime.schedules.forecast import ScheduleForecast
from meantime.schedules.leader import ELECTION, ScheduleLeader
from meantime.schedules.meters import MOVED, SCHEDULES
from meantime.schedules.store import CHANNEL, ScheduleStore
from meantime.schedules.targets import MessageTopics, TimerTargets
from meantime.schedules.zone_releases import ZoneReleases
from meantime.schedules.zone_store import ZoneStore
from meantime.supervision import kept_running


class ScheduleListener(Protocol):
    """What is needed of the process's listener."""

    def subscribe(self, channel: str, subscriber: Callable[[str | None], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class Schedules:
    """Everything that can be done with schedules. Who may ask is checked outside."""

    changing: Changing
    store: ScheduleStore
    forecast: ScheduleForecast
    leader: ScheduleLeader
    clock: Clock

    async def measure(self) -> None:
        """Count them, for the metrics."""
        counts = await self.store.counts()
        SCHEDULES.labels("active").set(counts["schedules"] - counts["paused"])
        SCHEDULES.labels("paused").set(counts["paused"])
        MOVED.set(counts["moved"])


@dataclass(frozen=True, slots=True)
class FiringTargets:
    """What firings become."""

    topics: MessageTopics
    timers: TimerTargets


@asynccontextmanager
async def open_schedules(
    database: Database,
    listener: ScheduleListener,
    session: Session,
    clock: Clock,
    targets: FiringTargets,
    require_healthy: Callable[[], None],
    node_id: str,
) -> AsyncIterator[Schedules]:
    """Waits for nothing. This node stands for election; `require_healthy` raises `Degraded` while it must not lead."""
    store = ScheduleStore(database)
    releases = ZoneReleases(ZoneStore(database, store), clock)
    firings = Firings(store, targets.topics, targets.timers, clock)
    changing = Changing(store, firings, targets.topics, targets.timers, releases, clock, require_healthy)
    leader = ScheduleLeader(store, firings, releases, clock, require_healthy, node_id)
    listener.subscribe(CHANNEL, lambda _: leader.wake.set())
    election = Election(session, ELECTION, node_id)
    async with kept_running(partial(leader.run, election), "schedules leader"):
        yield Schedules(changing, store, ScheduleForecast(database), leader, clock)
