"""How much is done each second: events and messages of this node, and of all nodes together.

Nodes count for themselves. While somebody looks at a console, the node that serves it asks for what the others count, by a
notification of PostgreSQL every few seconds; those that have heard it answer once a second in the same way, and stop when
nobody asks any more. Nothing is stored, and while nobody looks nothing is done.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
import structlog

from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.errors import UNREADABLE, MeantimeError

log = structlog.get_logger(__name__)

CHANNEL = "meantime_console"
NOTIFY = "SELECT pg_notify(%(channel)s, %(payload)s)"
EVERY = 1.0
ASK_EVERY = 3.0
ANSWER_FOR = 10.0
"""Seconds for which one question is answered."""
FRESH_FOR = 3.5
"""Seconds for which what another node has told counts."""
MOST_BYTES = 7_000
"""A notification has less than 8,000."""

EVENT_KINDS = ("publish", "read")
MESSAGE_KINDS = ("create", "lease", "delete")


class Totals(msgspec.Struct, frozen=True):
    """What was done since the node began: by event type `[published, read]`, by topic `[created, leased, deleted]`; and how
    late leases were, as a histogram."""

    event_types: dict[str, tuple[int, ...]]
    topics: dict[str, tuple[int, ...]]
    lateness: tuple[int, ...] = ()


class Activity(msgspec.Struct, frozen=True):
    """The same for each second of the last one, by what something was done with; the histogram is still a total.
    `overloads` are the topics with more ahead than their consumers can take: in how many seconds, and how much more."""

    node: str
    event_types: dict[str, tuple[float, ...]] = {}
    topics: dict[str, tuple[float, ...]] = {}
    sums: tuple[float, ...] = ()
    lateness: tuple[int, ...] = ()
    overloads: dict[str, tuple[int, int]] = {}


class Question(msgspec.Struct, frozen=True):
    asks: str


def rates(node: str, before: Totals, now: Totals, seconds: float, overloads: Mapping[str, tuple[int, int]]) -> Activity:
    event_types = _rates(before.event_types, now.event_types, seconds)
    topics = _rates(before.topics, now.topics, seconds)
    sums = (*_sums(event_types, len(EVENT_KINDS)), *_sums(topics, len(MESSAGE_KINDS)))
    return Activity(node, event_types, topics, sums, now.lateness, dict(overloads))


def _rates(
    before: Mapping[str, tuple[int, ...]], now: Mapping[str, tuple[int, ...]], seconds: float
) -> dict[str, tuple[float, ...]]:
    """Of those with which anything was done. A counter that has begun anew counts from nothing."""
    found = {}
    for name, counts in now.items():
        old = before.get(name, counts)
        each = tuple(round(max(0, count - was) / seconds, 1) for count, was in zip(counts, old, strict=True))
        if any(each):
            found[name] = each
    return found


def _sums(named: Mapping[str, tuple[float, ...]], width: int) -> list[float]:
    return [round(sum(each[place] for each in named.values()), 1) for place in range(width)]


def fitting(activity: Activity, most_bytes: int = MOST_BYTES) -> bytes:
    """As a notification can hold it: the busiest by name, all of them in the sums."""
    event_types, topics = _busiest(activity.event_types), _busiest(activity.topics)
    while True:
        payload = msgspec.json.encode(msgspec.structs.replace(activity, event_types=event_types, topics=topics))
        if len(payload) <= most_bytes:
            return payload
        longer = event_types if len(event_types) > len(topics) else topics
        if not longer:
            return msgspec.json.encode(Activity(activity.node, sums=activity.sums))
        for name in list(longer)[len(longer) // 2 :]:
            del longer[name]


def _busiest(named: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    return dict(sorted(named.items(), key=lambda item: -sum(item[1])))


class ActivityExchange:
    """What this node tells the others and hears from them. `totals` are those of this node."""

    def __init__(
        self,
        node: str,
        database: Database,
        listener: Listener,
        totals: Callable[[], Totals],
        overloads: Callable[[], Mapping[str, tuple[int, int]]],
    ) -> None:
        self._node = node
        self._database = database
        self._totals = totals
        self._overloads = overloads
        self._heard: dict[str, tuple[float, Activity]] = {}
        self._own = Activity(node)
        self._last: tuple[float, Totals] | None = None
        self._asked = asyncio.Event()
        self._answer_until = self._ask_at = 0.0
        listener.subscribe(CHANNEL, self._on_notification)

    async def run(self) -> None:
        """Answer while somebody asks, for ever."""
        while True:
            await self._asked.wait()
            while time.monotonic() < self._answer_until:
                self.measure()
                await self._notify(fitting(self._own))
                await asyncio.sleep(EVERY)
            self._asked.clear()

    async def ask(self) -> None:
        """Have the others tell for a while; often enough, this is to be called once a second."""
        if time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + ASK_EVERY
            await self._notify(msgspec.json.encode(Question(self._node)))

    def measure(self) -> Activity:
        """That of this node since it was last measured, which is at most once a second. What was measured long ago, for
        somebody who has gone since, says nothing about now."""
        now = time.monotonic()
        if self._last is None or now - self._last[0] >= 0.9 * EVERY:
            totals = self._totals()
            if self._last is not None and now - self._last[0] < ANSWER_FOR:
                self._own = rates(self._node, self._last[1], totals, now - self._last[0], self._overloads())
            else:
                self._own = Activity(self._node, lateness=totals.lateness)
            self._last = (now, totals)
        return self._own

    def all(self) -> list[Activity]:
        """Of every node that has told it lately, this one included."""
        oldest = time.monotonic() - FRESH_FOR
        self._heard = {node: told for node, told in self._heard.items() if told[0] >= oldest}
        return [self.measure(), *(activity for _, activity in self._heard.values())]

    async def _notify(self, payload: bytes) -> None:
        try:
            await self._database.execute(NOTIFY, {"channel": CHANNEL, "payload": payload.decode()})
        except MeantimeError as error:
            log.debug("activity_not_told", error=error.detail)

    def _on_notification(self, payload: str | None) -> None:
        if payload is None:
            return
        try:
            message = msgspec.json.decode(payload, type=dict)
            if "asks" in message:
                if message["asks"] != self._node:
                    self._answer_until = time.monotonic() + ANSWER_FOR
                    self._asked.set()
                return
            activity = msgspec.convert(message, Activity)
        except (*UNREADABLE, msgspec.ValidationError):
            log.debug("activity_not_understood")
            return
        if activity.node != self._node:
            self._heard[activity.node] = (time.monotonic(), activity)


def merged(activities: list[Activity]) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]], dict[str, float]]:
    """Event types and topics with their rates by kind, and the sums, over all nodes."""
    event_types: dict[str, Counter[str]] = {}
    topics: dict[str, Counter[str]] = {}
    sums: Counter[str] = Counter()
    for activity in activities:
        for found, named, kinds in (
            (event_types, activity.event_types, EVENT_KINDS),
            (topics, activity.topics, MESSAGE_KINDS),
        ):
            for name, each in named.items():
                found.setdefault(name, Counter()).update(dict(zip(kinds, each, strict=False)))
        sums.update(dict(zip((*EVENT_KINDS, *MESSAGE_KINDS), activity.sums, strict=False)))
    return event_types, topics, {kind: round(sums[kind], 1) for kind in (*EVENT_KINDS, *MESSAGE_KINDS)}
