"""The events of some partitions, in order, over all their timelines and clusters, for as long as they are wanted.

Each partition walks along its timelines. A border is exact: nothing beyond a closed timeline's last offset is delivered, and
the next timeline begins after it. Consumers for the next timelines are opened ahead, so that crossing a border costs
nothing; a timeline that a switch has just made is noticed through the catalog while the stream stays open.
"""

import asyncio
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass, field

import structlog

from meantime.errors import NotFound, Unavailable
from meantime.kafka.consumer import Run, TopicPlace
from meantime.streams.catalog.catalog import Catalog, Entry
from meantime.streams.cursors import Cursor, track
from meantime.streams.model import Timeline
from meantime.streams.reading.courses import Course
from meantime.streams.reading.shared_consumer import Feed, Key, Leg

log = structlog.get_logger(__name__)

RETRY_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class Piece:
    """Events `first`, `first + 1` … of one timeline."""

    key: Key
    order: int
    first: int
    values: list[bytes]


@dataclass(slots=True)
class Haul:
    """What a look at the source brought. `lost` are partitions whose next event has expired; `gone` are event types that
    were deleted."""

    pieces: list[Piece] = field(default_factory=list)
    lost: list[Key] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


class Source:
    def __init__(
        self, catalog: Catalog, threads: Executor, tasks: "set[asyncio.Task[None]]", *, timed: bool = False
    ) -> None:
        self._catalog = catalog
        self._threads = threads
        self._tasks = tasks
        self._timed = timed
        self._courses: dict[str, Course] = {}
        self._legs: dict[tuple[str, int], Leg] = {}
        self._chunks: deque[tuple[Leg, list[Run]]] = deque()
        self._news = asyncio.Event()
        self._gone: list[str] = []
        self._lost: list[Key] = []
        self._closed = False

    async def add(self, starts: dict[Key, Cursor]) -> None:
        """Read these partitions too, each from the event after its cursor."""
        feeds = []
        for key, cursor in starts.items():
            course = await self._course(key[0], cursor.order)
            feed = Feed(key, cursor.order or course.first_order, cursor.offset)
            course.feeds[key] = feed
            self._settle(course, feed)
            feeds.append(feed)
        if self._closed:
            self.close()
        else:
            self._arrange(feeds)

    def drop(self, keys: list[Key]) -> None:
        for key in keys:
            course = self._courses.get(key[0])
            feed = course.feeds.pop(key, None) if course is not None else None
            if course is None or feed is None or self._closed:
                continue
            for order in list(feed.legs):
                self._detach(course, feed, order)
            if not course.feeds and course.watch is not None:
                course.watch.cancel()
                del self._courses[key[0]]

    async def next(self, wait_for: float) -> Haul:
        """What has come; waits so long for something. Returns early, perhaps with nothing, when it is woken."""
        if not self._news.is_set() and wait_for > 0:
            try:
                async with asyncio.timeout(wait_for):
                    await self._news.wait()
            except TimeoutError:
                return Haul()
        self._news.clear()
        haul = Haul(lost=self._lost, gone=self._gone)
        self._lost, self._gone = [], []
        moved: set[Feed] = set()
        while self._chunks:
            leg, runs = self._chunks.popleft()
            leg.check()
            for run in runs:
                self._accept(leg, run, haul, moved)
            leg.regulate()
            leg.looked_at()
        self._arrange(list(moved))
        return haul

    def wake(self) -> None:
        self._news.set()

    def close(self) -> None:
        """Leave everything; consumers are closed a moment later by their own tasks."""
        self._closed = True
        for course in self._courses.values():
            if course.watch is not None:
                course.watch.cancel()
        for leg in {
            leg for course in self._courses.values() for feed in course.feeds.values() for leg in feed.legs.values()
        }:
            leg.leave()

    # Walking

    def _accept(self, leg: Leg, run: Run, haul: Haul, moved: set[Feed]) -> None:
        feed, order = leg.reader_of((run.topic, run.partition)) or (None, 0)
        if feed is None or order < feed.order:
            return
        if order > feed.order:
            feed.held.setdefault(order, []).append(run)
            leg.held_bytes += sum(map(len, run.values))
            return
        course = self._courses[feed.key[0]]
        self._deliver(course, feed, run, haul)
        if feed.reached == course.last(feed) and self._settle(course, feed):
            moved.add(feed)
            self._release(course, feed, haul)

    def _deliver(self, course: Course, feed: Feed, run: Run, haul: Haul) -> None:
        if run.lost:
            haul.lost.append(feed.key)
            return
        last = course.last(feed)
        first = max(run.first, feed.reached + 1)
        end = run.first + len(run.values)
        if last is not None:
            end = min(end, last + 1)
        if first < end:
            whole = first == run.first and end == run.first + len(run.values)
            values = run.values if whole else run.values[first - run.first : end - run.first]
            haul.pieces.append(Piece(feed.key, feed.order, first, values))
        seen = run.first + len(run.values) - 1
        feed.reached = max(feed.reached, seen if last is None else min(seen, last))

    def _settle(self, course: Course, feed: Feed) -> bool:
        """Step over the borders that have been reached; whether there was one."""
        last = course.last(feed)
        reached = feed.reached if last is None else min(feed.reached, last)
        settled = track(course.entry.timelines, feed.key[1]).settled(Cursor(feed.order, reached))
        crossed = settled.order != feed.order
        feed.order, feed.reached = settled.order, settled.offset
        if course.timeline(feed.order).deleted:
            self._lost.append(feed.key)
            self._news.set()
        return crossed

    def _release(self, course: Course, feed: Feed, haul: Haul) -> None:
        """Deliver what came early for the timeline that has been entered, and perhaps cross again."""
        while runs := feed.held.pop(feed.order, None):
            leg, order = feed.legs[feed.order], feed.order
            leg.held_bytes -= sum(len(value) for run in runs for value in run.values)
            for run in runs:
                self._deliver(course, feed, run, haul)
            if not self._settle(course, feed):
                leg.regulate()
                return
            feed.held.pop(order, None)

    # Placing

    def _arrange(self, feeds: list[Feed]) -> None:
        """Give each feed its legs: for where it is and for what comes next; take it off those behind it."""
        additions: dict[Leg, list[tuple[Feed, int, TopicPlace]]] = {}
        for feed in feeds:
            course = self._courses[feed.key[0]]
            for timeline in course.ahead(feed):
                if timeline.order not in feed.legs and not timeline.deleted:
                    start = feed.reached + 1 if timeline.order == feed.order else 0
                    place = (timeline.topic, feed.key[1], start)
                    additions.setdefault(self._leg(course, timeline), []).append((feed, timeline.order, place))
        for leg, added in additions.items():
            leg.add(added)
        for feed in feeds:
            for order in [order for order in feed.legs if order < feed.order]:
                self._detach(self._courses[feed.key[0]], feed, order)
            for leg in feed.legs.values():
                leg.regulate()

    def _leg(self, course: Course, timeline: Timeline) -> Leg:
        key = (timeline.event_type, timeline.order)
        if key not in self._legs:
            leg = self._legs[key] = Leg(self._threads, self._receive)
            adopted = course.entry.event_type.adopt_topic
            foreign = [timeline.topic] if timeline.topic == adopted else []
            storage = self._catalog.storage(timeline.storage_id)
            task = asyncio.create_task(leg.run(storage, foreign, timed=self._timed), name=f"leg {key[0]} {key[1]}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self._legs[key]

    def _detach(self, course: Course, feed: Feed, order: int) -> None:
        leg = feed.legs.pop(order)
        feed.held.pop(order, None)
        leg.drop((course.timeline(order).topic, feed.key[1]))
        if not leg.places:
            self._legs.pop((feed.key[0], order), None)

    def _receive(self, leg: Leg, runs: list[Run]) -> None:
        self._chunks.append((leg, runs))
        self._news.set()

    # Timelines that change

    async def _course(self, name: str, order: int) -> Course:
        """The course of an event type, with its timelines known up to `order` at least."""
        entry = await self._catalog.entry(name)
        course = self._courses.get(name)
        if course is None:
            course = self._courses[name] = Course(entry)
            course.watch = asyncio.create_task(self._follow(name, course), name=f"timelines of {name}")
        elif order > course.entry.active.order:
            self._learn(course, entry)
        return course

    def _learn(self, course: Course, entry: Entry) -> None:
        self._become_real(course, entry)
        course.learn(entry)
        for feed in course.feeds.values():
            self._settle(course, feed)
        self._arrange(list(course.feeds.values()))

    async def _follow(self, name: str, course: Course) -> None:
        while True:
            try:
                await self._catalog.wait_for_change(name, course.entry.timelines)
                entry = await self._catalog.entry(name)
            except NotFound:
                break
            except Unavailable:
                await asyncio.sleep(RETRY_EVERY)
                continue
            if not course.is_same(entry):
                break
            self._learn(course, entry)
        self._gone.append(name)
        self._news.set()

    def _become_real(self, course: Course, entry: Entry) -> None:
        """A fake timeline gets its number at its first switch; its topic, and who reads it, stay the same."""
        fake, real = course.entry.timelines[0], entry.timelines[0]
        if not fake.fake or real.fake:
            return
        leg = self._legs.pop((fake.event_type, fake.order), None)
        if leg is not None:
            self._legs[real.event_type, real.order] = leg
            leg.places = {place: (feed, real.order) for place, (feed, _) in leg.places.items()}
        for feed in course.feeds.values():
            feed.order = real.order
            feed.legs = {real.order: leg} if leg is not None and feed.legs else {}
