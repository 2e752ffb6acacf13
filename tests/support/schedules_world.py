"""Schedules on a real PostgreSQL with a clock that a test moves, and a leader that a test lets work pass by pass."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from http_server import open_http_server
from topics_nodes import SwitchableHealth, new_database

from meantime.clock import ManualClock
from meantime.database.listener import open_listener
from meantime.database.pool import Database, open_database
from meantime.errors import Invalid, StorageUnavailable
from meantime.processes.schedule_targets import TopicsOfSchedules
from meantime.schedules.changing import Changing
from meantime.schedules.firing import Firings
from meantime.schedules.forecast import ScheduleForecast
from meantime.schedules.leader import ScheduleLeader
from meantime.schedules.model import Firing, FiringState
from meantime.schedules.rules import LATEST_MS
from meantime.schedules.schedules import Schedules
from meantime.schedules.store import ScheduleStore
from meantime.schedules.targets import ScheduledTimer
from meantime.schedules.zone_releases import ZoneReleases
from meantime.schedules.zone_store import ZoneStore
from meantime.topics.settings import SettingsChange
from meantime.topics.topics import Topics, open_topics

NOW = 1_800_000_000_000
TOPIC = "jobs"
TARGET = {"topic": TOPIC, "group": "g"}
CALLS = {"kafka_topic": "calls"}


@dataclass
class TimersByHand:
    """Keeps timers as Kafka would, and fails when a test says so. A timer is its token and second; the first request for it
    counts, a cancel may come before it, and what is due cannot be cancelled."""

    clock: ManualClock
    timers: dict[tuple[str, int], ScheduledTimer] = field(default_factory=dict)
    cancelled: set[tuple[str, int]] = field(default_factory=set)
    away: bool = False
    stuck: bool = False
    """Takes requests and then does not answer."""

    async def check(self, timer: ScheduledTimer) -> None:
        if timer.target.kafka_topic == "missing":
            raise Invalid("there is no such topic", field="target.kafka_topic")

    async def set(self, timers: Sequence[ScheduledTimer]) -> None:
        if self.away:
            raise StorageUnavailable("Kafka is away")
        for timer in timers:
            self.timers.setdefault((timer.token, timer.second), timer)
        if self.stuck:
            raise StorageUnavailable("Kafka did not answer")

    async def cancel(self, token: str, second: int) -> bool:
        if self.away:
            raise StorageUnavailable("Kafka is away")
        if second * 1000 <= self.clock.now_ms():
            return False
        self.cancelled.add((token, second))
        return True

    def pending(self) -> list[str]:
        return sorted(token for token, second in self.timers if (token, second) not in self.cancelled)


@dataclass
class SchedulesWorld:
    clock: ManualClock
    database: Database
    topics: Topics
    timers: TimersByHand
    schedules: Schedules
    releases: ZoneReleases
    health: SwitchableHealth
    http: httpx.AsyncClient
    epoch: int = 0

    async def put(self, name: str, **fields: Any) -> dict[str, Any]:
        answer = await self.http.put(f"/schedules/{name}", json={"every_ms": 1_000, "target": TARGET} | fields)
        assert answer.is_success, answer.text
        return dict(answer.json())

    async def post(self, path: str, **fields: Any) -> dict[str, Any]:
        answer = await self.http.post(path, json=fields)
        assert answer.is_success, answer.text
        return dict(answer.json())

    async def lead(self, node_id: str = "node") -> int:
        """Become the leader anew."""
        self.epoch = await self.schedules.store.lead(0, node_id)
        return self.epoch

    async def work(self, epoch: int | None = None) -> int:
        """One pass of the leader."""
        return await self.schedules.leader.run_once(self.epoch if epoch is None else epoch)

    async def messages(self) -> dict[str, int]:
        """Of the topic: id and instant, without those that are gone."""
        rows = await self.database.fetch_all("SELECT id, at_ms FROM topic_messages WHERE stage < 3 ORDER BY at_ms")
        return {row["id"]: row["at_ms"] for row in rows}

    async def firings(self, name: str) -> list[Firing]:
        """Oldest first."""
        return (await self.schedules.store.firings(name, 0, LATEST_MS, 10_000))[::-1]

    async def states(self, name: str) -> dict[int, FiringState]:
        return {one.at_ms: one.state for one in await self.firings(name)}


@asynccontextmanager
async def open_schedules_world(postgres: str) -> AsyncIterator[SchedulesWorld]:
    clock, health = ManualClock(NOW), SwitchableHealth()
    timers = TimersByHand(clock)
    async with (
        new_database(postgres) as uri,
        open_listener(uri) as listener,
        open_database(uri, size=4) as database,
        open_topics(uri, listener, clock, health.require_healthy, "node") as topics,
    ):
        store, of_topics = ScheduleStore(database), TopicsOfSchedules(topics)
        releases = ZoneReleases(ZoneStore(database, store), clock)
        firings = Firings(store, of_topics, timers, clock)
        changing = Changing(store, firings, of_topics, timers, releases, clock, health.require_healthy)
        leader = ScheduleLeader(store, firings, releases, clock, health.require_healthy, "node")
        schedules = Schedules(changing, store, ScheduleForecast(database), leader, clock)
        await topics.catalog.put(TOPIC, SettingsChange())
        async with (
            open_http_server(clock=clock, topics=topics, schedules=schedules) as server,
            httpx.AsyncClient(base_url=server.url, timeout=60) as http,
        ):
            world = SchedulesWorld(clock, database, topics, timers, schedules, releases, health, http)
            await world.lead()
            yield world
