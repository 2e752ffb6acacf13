"""The state that the console shows live: what each part of a node knows, put together once a second.

What costs nothing is read each time: nodes, clocks, rates, gates. What asks a service is measured now and then, as for the
metrics: the longer it takes, the less often. What cannot be had is not there, and everything else still is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from meantime.cluster.view import ClusterView, NodeReport
from meantime.console import problems
from meantime.console.activity import Activity, ActivityExchange, Totals, merged
from meantime.console.merge_patch import Json
from meantime.console.problems import AppSummary, Problems
from meantime.errors import NotFound
from meantime.measures import Measure, Measures
from meantime.streams.publishing.publisher import PUBLISHED
from meantime.streams.reading.reader import STREAMED
from meantime.streams.streams import Streams
from meantime.supervision import failing_tasks
from meantime.timers.status import TimersStatus
from meantime.timers.timers import Timers
from meantime.topics.meters import LATENESS, METERS
from meantime.topics.model import TopicDepth
from meantime.topics.rules import application_of
from meantime.topics.topics import Topics
from meantime.workers.inspection import Apps

MOST_NAMED = 200
"""So many topics and event types are shown with their rates, the busiest."""
WITHIN = 0.5
"""Seconds that a state waits for what is being measured."""


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What is looked at."""

    node_id: str
    cluster: ClusterView
    streams: Streams
    topics: Topics
    timers: Timers
    apps: Apps


@dataclass(slots=True)
class _Measured:
    depths: list[TopicDepth] = field(default_factory=list)
    letter_topics: frozenset[str] = frozenset()
    timers: TimersStatus | None = None
    fired: tuple[int, int] | None = None
    """How many callbacks there were, and at which instant that was."""
    fire_rate: float | None = None
    apps: list[AppSummary] = field(default_factory=list)


def totals_of(topics: Topics) -> Totals:
    """What this node has done since it began."""
    published, streamed = PUBLISHED.counts, STREAMED.counts
    names = {**published, **streamed}
    done: dict[str, tuple[int, ...]] = {}
    for topic_id, tally in METERS.tallies().items():
        name = topics.catalog.name_of(topic_id)
        if name is not None:
            done[name] = (tally.created, tally.pulled + tally.pushed, tally.deleted)
    return Totals({name: (published.get(name, 0), streamed.get(name, 0)) for name in names}, done, LATENESS.counts)


def overloads_of(topics: Topics) -> dict[str, tuple[int, int]]:
    return {name: (found.in_seconds, found.excess) for name, found in topics.overload.ahead.items()}


class LiveState:
    def __init__(self, parts: ConsoleParts, exchange: ActivityExchange) -> None:
        self._parts = parts
        self._exchange = exchange
        self._measured = _Measured()
        self._closed_since_ms: dict[str, int] = {}
        self._measures = Measures(
            [
                Measure("console topics", self._look_at_topics, self._lose_topics),
                Measure("console timers", self._look_at_timers, self._lose_timers, every=2.0),
                Measure("console apps", self._look_at_apps, self._lose_apps),
            ]
        )

    async def collect(self) -> Json:
        """The state as it is now."""
        await self._exchange.ask()
        await self._measures.refresh(WITHIN)
        nodes = await self._parts.cluster.nodes()
        activities = self._exchange.all()
        now_ms = self._parts.cluster.clock.now_ms()
        event_types, topics, rates = merged(activities)
        measured = self._measured
        state: Json = {
            "now_ms": now_ms,
            "node": self._parts.node_id,
            "nodes": self._nodes(nodes),
            "rates": rates if measured.fire_rate is None else rates | {"fire": measured.fire_rate},
            "event_types": _busiest(event_types),
            "topics": self._topics(_busiest(topics)),
            "apps": {app.name: _app(app) for app in measured.apps},
            "lateness": _lateness(activities),
            "problems": {key: msgspec.to_builtins(one) for key, one in self._problems(nodes, activities, now_ms).items()},
        }
        if measured.timers is not None:
            state["timers"] = without_nulls(msgspec.to_builtins(measured.timers))
        return state

    async def end(self) -> None:
        await self._measures.end()

    # What is read each time

    def _nodes(self, nodes: list[NodeReport]) -> Json:
        offsets = self._parts.cluster.offsets()
        found = {}
        for node in nodes:
            shown: Json = {"url": node.url, "state": node.state, "release": node.release, "version": node.timelines_version}
            shown["offset_ms"] = offsets.get(node.id)
            shown["reasons"] = msgspec.to_builtins(node.reasons)
            found[node.id] = without_nulls(shown)
        return found

    def _topics(self, rates: Mapping[str, Json]) -> Json:
        """Those that anything is in or done with."""
        found: Json = {name: dict(each) for name, each in rates.items()}
        for depth in self._measured.depths:
            counts = msgspec.structs.asdict(depth.counts)
            if depth.name in found or (any(counts.values()) and len(found) < 2 * MOST_NAMED):
                shown = found.setdefault(depth.name, {})
                shown |= counts
                if depth.oldest_due_ms is not None:
                    shown["oldest_due_ms"] = depth.oldest_due_ms
        return found

    def _problems(self, nodes: list[NodeReport], activities: list[Activity], now_ms: int) -> Problems:
        parts, measured = self._parts, self._measured
        locked = parts.streams.barrier.locked
        self._closed_since_ms = {name: self._closed_since_ms.get(name, now_ms) for name in locked}
        overloads = {name: found for activity in activities for name, found in activity.overloads.items()}
        found = problems.of_nodes(nodes)
        found |= problems.of_tasks((str(task), task.error) for task in failing_tasks())
        found |= problems.of_gates(self._closed_since_ms, now_ms)
        consumed = parts.topics.consumers.by_topic().keys()
        found |= problems.of_topics(measured.depths, consumed, measured.letter_topics, now_ms)
        found |= problems.of_overloads(overloads)
        if measured.timers is not None:
            found |= problems.of_timers(measured.timers)
        return found | problems.of_apps(measured.apps)

    # What is measured now and then

    async def _look_at_topics(self) -> None:
        topics = self._parts.topics
        known = await topics.catalog.all()
        letters = {topic.settings.dead_letter_topic for topic in known}
        letters |= {topic.name for topic in known if application_of(topic.name) and topic.name.endswith(".dead")}
        depths = await topics.depths.look()
        self._measured.letter_topics = frozenset(name for name in letters if name)
        self._measured.depths = sorted(depths, key=lambda one: (-one.counts.available, -one.counts.waiting, one.name))

    def _lose_topics(self) -> None:
        self._measured.depths = []

    async def _look_at_timers(self) -> None:
        status, now_ms = await self._parts.timers.monitor.status(), self._parts.cluster.clock.now_ms()
        fired, before = sum(status.dispatcher.callbacks.values()), self._measured.fired
        if before is not None and now_ms > before[1]:
            self._measured.fire_rate = round(max(0, fired - before[0]) * 1000 / (now_ms - before[1]), 1)
        self._measured.timers, self._measured.fired = status, (fired, now_ms)

    def _lose_timers(self) -> None:
        self._measured.timers = self._measured.fired = self._measured.fire_rate = None

    async def _look_at_apps(self) -> None:
        found = []
        for app in await self._parts.apps.apps():
            try:
                owners = await self._parts.apps.ownership(app.name)
            except NotFound:
                continue
            unowned = sum(owner is None for owner in owners.values())
            found.append(AppSummary(app.name, app.workers, len(owners), unowned, app.paused))
        self._measured.apps = found

    def _lose_apps(self) -> None:
        self._measured.apps = []


def _busiest(named: Mapping[str, Mapping[str, float]]) -> dict[str, Json]:
    ordered = sorted(named.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return {name: {kind: round(rate, 1) for kind, rate in each.items()} for name, each in ordered[:MOST_NAMED]}


def _app(app: AppSummary) -> Json:
    return {"workers": app.workers, "queues": app.queues, "unowned": app.unowned, "paused": app.paused}


def _lateness(activities: list[Activity]) -> Json:
    """How late leases were since the nodes began."""
    bounds_ms = LATENESS.bounds_ms
    whole = [activity.lateness for activity in activities if len(activity.lateness) == len(bounds_ms) + 1]
    return {"bounds_ms": bounds_ms, "counts": [sum(counts) for counts in zip(*whole, strict=True)]}


def without_nulls(value: Any) -> Any:
    """What is not known is not there."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value
