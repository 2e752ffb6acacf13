"""Takes what is due from one topic and gives it to those who can take it: one loop per topic and node.

    wait ──► look who has room ──► take what is due ──► hand it out ──► look ahead ──► wait

It waits for the next instant that it knows of, or until it is woken: by a taker, by a lease that was freed, by news of a
message. Two ways lead to a lease. What was prefetched is leased by id and version at its moment, to the consumer that its
bucket is dealt to. Where more is due than is known, whatever is due is taken in time order by one statement. Both check
everything again in the database, so two nodes that serve the same topic can only waste time, not lease twice.

Dead rows, above all those that an old snapshot keeps alive, would have to be skipped at the beginning of every scan. So
scans start at a floor that follows what was taken. News of something below lowers it; and because news may be lost, the
whole past is scanned regularly.
"""

import asyncio
import time
from collections.abc import Sequence

import structlog

from meantime.clock import Clock
from meantime.errors import MeantimeError, NotFound, StorageUnavailable
from meantime.tasks import end
from meantime.topics.catalog import Catalogue
from meantime.topics.health import Health
from meantime.topics.leasing.bucket_shares import Allotment, assign
from meantime.topics.leasing.prefetch import NEVER_MS, Upcoming
from meantime.topics.leasing.receivers import Consuming, Pull, Stream
from meantime.topics.meters import LATENESS, LEASED
from meantime.topics.model import Due, Lease, Topic
from meantime.topics.rules import MIN_AHEAD_MS, interleave
from meantime.topics.storage.messages import FIRST_MS, HolderRow, Messages, Taker, Window

HORIZON_MS = 1000
PREFETCH = 1000
HELP_AFTER_MS = 25
FLOOR_MARGIN_MS = 200
MOST_AT_ONCE = 10_000
FULL_SCAN_EVERY = 1.0
REST_FOR = 0.02

log = structlog.get_logger(__name__)


class Dispatcher:
    def __init__(self, name: str, catalogue: Catalogue, messages: Messages, clock: Clock, health: Health) -> None:
        self._name = name
        self._catalogue = catalogue
        self._messages = messages
        self._clock = clock
        self._health = health
        self._takers: list[Consuming] = []
        self._upcoming = Upcoming(HELP_AFTER_MS, few=PREFETCH // 4, most=4 * PREFETCH)
        self._allotment = Allotment()
        self._meanwhile: list[Due] | None = None
        self._orphans: list[Lease] = []
        self._unknown_ms = NEVER_MS
        self._alarm_ms = NEVER_MS
        self._backlog = True
        self._floor_ms = FIRST_MS
        self._heard_ms = NEVER_MS
        self._full_scan_at = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def streams(self) -> list[Stream]:
        return [taker for taker in self._takers if isinstance(taker, Stream)]

    def join(self, taker: Consuming) -> None:
        self._takers.append(taker)
        self._backlog = self._backlog or isinstance(taker, Stream)
        self.wake()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"dispatcher {self._name}")

    def leave(self, taker: Consuming) -> None:
        if taker in self._takers:
            self._takers.remove(taker)
        self.wake()

    async def stop(self) -> None:
        if self._task:
            await end(self._task)

    def wake(self) -> None:
        self._wake.set()

    def arrived(self, dues: Sequence[Due]) -> None:
        """Messages have a new place in time; this node made the change."""
        self._hear(min((due.at_ms for due in dues), default=NEVER_MS))
        if not self._takers:
            self._backlog = True
            return
        if self._meanwhile is not None:
            self._meanwhile += dues
        if not all(self._upcoming.add(due) for due in dues):
            self._upcoming.forget()
            self._backlog = True
        if self._backlog or self._upcoming.next_ms < self._alarm_ms:
            self.wake()

    def arrived_elsewhere(self, at_ms: int) -> None:
        """Another node made the change, and says only when."""
        self._hear(at_ms)
        if at_ms < self._unknown_ms:
            self._unknown_ms = at_ms
            self.wake()

    def _hear(self, at_ms: int) -> None:
        """There is something at this instant, and a scan that is going on may have missed it."""
        self._floor_ms = min(self._floor_ms, at_ms)
        self._heard_ms = min(self._heard_ms, at_ms)

    def doubt(self, consumer_id: str | None) -> None:
        """What is believed of a consumer's leases (None: of all) may be wrong: who has no room may have some now."""
        for stream in self.streams:
            if consumer_id in (None, stream.consumer_id):
                stream.doubtful = True
        self.wake()

    def deal(self, allotment: Allotment) -> None:
        """Consumers came or went, here or elsewhere."""
        if allotment != self._allotment:
            self._allotment = allotment
            self._upcoming.forget()
            self._hear(FIRST_MS)
            self._backlog = True
            self.wake()

    async def _run(self) -> None:
        while self._takers:
            self._wake.clear()
            try:
                rest = await self._round()
            except NotFound as error:
                self._end_all(error)
                return
            except StorageUnavailable as error:
                self._end_pulls(error)
                self._backlog = True
                rest = 0.25
            await self._wait(rest)

    async def _round(self) -> float:
        """One look and what follows from it; the seconds to rest in any case before the next one."""
        topic = await self._catalogue.get(self._name)
        if not self._health.healthy:
            return self._pause()
        await self._resolve_doubts(topic)
        now_ms = self._clock.now_ms()
        takers = [(taker, room) for taker in self._takers if (room := taker.room(now_ms))]
        took = await self._take(topic, takers, now_ms) if takers else 0
        self._end_late_pulls()
        await self._give_back(topic)
        if takers and not self._backlog:
            await self._look_ahead(topic)
        # Only what was due already when nothing could be taken is a reason to rest: somebody else is at it.
        return REST_FOR if takers and not took and self._upcoming.due(now_ms) else 0.0

    def _pause(self) -> float:
        """A node that cannot trust itself takes nothing; pulls are told why."""
        try:
            self._health.require_healthy()
        except MeantimeError as error:
            self._end_pulls(error)
        self._backlog = True
        self._upcoming.forget()
        return 0.1

    async def _resolve_doubts(self, topic: Topic) -> None:
        for stream in self.streams:
            if stream.doubtful:
                stream.begin_look()
                stream.finish_look(await self._messages.held_ids(topic, stream.consumer_id, self._clock.now_ms()))

    async def _take(self, topic: Topic, takers: list[tuple[Consuming, int]], now_ms: int) -> int:
        leases: list[Lease] = []
        untried = any(isinstance(taker, Pull) and not taker.tried for taker, _ in takers)
        if self._backlog or untried or self._unknown_ms <= now_ms:
            leases = await self._take_due(topic, takers, now_ms)
        elif self._upcoming.due(now_ms):
            leases = await self._take_known(topic, takers, now_ms)
        for taker, _ in takers:
            if isinstance(taker, Pull):
                taker.tried = True
        self._hand_out(leases, takers, now_ms)
        return len(leases)

    async def _take_due(self, topic: Topic, takers: list[tuple[Consuming, int]], now_ms: int) -> list[Lease]:
        """Whatever is due, the oldest first. A pull looks everywhere, streams in the buckets that are dealt to them."""
        full = time.monotonic() >= self._full_scan_at
        pulling = any(isinstance(taker, Pull) for taker, _ in takers)
        buckets = None if pulling else self._allotment.buckets
        turns = interleave([room for _, room in takers], MOST_AT_ONCE)
        window = Window(FIRST_MS if full else self._floor_ms, now_ms, buckets, self._allotment.alone)
        self._unknown_ms = NEVER_MS if self._unknown_ms <= now_ms else self._unknown_ms
        self._upcoming.forget()
        self._heard_ms = NEVER_MS
        began = time.monotonic()
        leases = await self._messages.lease_due(topic, [_taker(*pair) for pair in takers], turns, window, now_ms)
        if full:
            self._plan_full_scan(began)
        self._floor_ms = min(self._heard_ms, (leases[0].due_at_ms if leases else now_ms) - FLOOR_MARGIN_MS)
        self._backlog = len(leases) == len(turns)
        return leases

    async def _take_known(self, topic: Topic, takers: list[tuple[Consuming, int]], now_ms: int) -> list[Lease]:
        """What was prefetched, each for the consumer that its bucket is dealt to if that one has room."""
        rooms: dict[str, Taker] = {}
        for taker, room in takers:
            other = rooms.get(taker.consumer_id)
            rooms[taker.consumer_id] = _taker(taker, room + (other.room if other else 0))
        dues = self._upcoming.take(now_ms, min(MOST_AT_ONCE, sum(room for _, room in takers)))
        return await self._messages.lease_known(topic, assign(dues, rooms, self._allotment), now_ms)

    async def _look_ahead(self, topic: Topic) -> None:
        """Prefetch what becomes due within the horizon, if it is not known far enough."""
        now_ms = self._clock.now_ms()
        if self._upcoming.look_again_ms(HORIZON_MS // 2) > now_ms:
            return
        full = time.monotonic() >= self._full_scan_at or self._allotment.own is not None
        until_ms = now_ms + HORIZON_MS
        began = time.monotonic()
        self._meanwhile = []
        try:
            dues = await self._messages.upcoming(topic, FIRST_MS if full else self._floor_ms, until_ms, PREFETCH)
        finally:
            meanwhile, self._meanwhile = self._meanwhile, None
        if full:
            self._plan_full_scan(began)
        self._upcoming.replace(dues, until_ms, len(dues) == PREFETCH, self._allotment.own)
        self._backlog = self._allotment.own is None and self._upcoming.known_until_ms <= now_ms
        self.arrived(meanwhile)

    def _plan_full_scan(self, began: float) -> None:
        """Not sooner than it is worth: where it is slow, it is done more seldom."""
        took = time.monotonic() - began
        self._full_scan_at = time.monotonic() + max(FULL_SCAN_EVERY, 20 * took)

    def _hand_out(self, leases: Sequence[Lease], takers: list[tuple[Consuming, int]], now_ms: int) -> None:
        shares: dict[str, list[Lease]] = {}
        for lease in leases:
            shares.setdefault(lease.consumer_id, []).append(lease)
        LATENESS.observe([max(0, now_ms - lease.due_at_ms) / 1000 for lease in leases])
        for taker, room in takers:
            share = shares.get(taker.consumer_id, [])
            mine, shares[taker.consumer_id] = share[:room], share[room:]
            if mine and not taker.offer(mine):
                self._orphans += mine
            elif mine:
                LEASED.labels("pull" if isinstance(taker, Pull) else "push").inc(len(mine))
                self._account(taker, mine)

    async def _give_back(self, topic: Topic) -> None:
        """What was leased for somebody who had gone meanwhile is free again at once."""
        orphans, self._orphans = self._orphans, []
        if orphans:
            now_ms = self._clock.now_ms()
            rows = [
                HolderRow(topic.topic_id, one.id, one.version, one.consumer_id, now_ms + MIN_AHEAD_MS)
                for one in sorted(orphans, key=lambda one: one.id)
            ]
            await self._messages.release(rows, now_ms)
            self._unknown_ms = min(self._unknown_ms, now_ms + MIN_AHEAD_MS)

    def _account(self, taker: Consuming, leases: Sequence[Lease]) -> None:
        """What a consumer pulls counts against the buffer of its stream."""
        for stream in self.streams:
            if stream is not taker and stream.consumer_id == taker.consumer_id:
                for lease in leases:
                    stream.hold(lease.id, lease.at_ms)

    def _end_late_pulls(self) -> None:
        now_ms = self._clock.now_ms()
        for taker in list(self._takers):
            if isinstance(taker, Pull):
                if taker.tried and taker.deadline_ms <= now_ms:
                    taker.offer([])
                if taker.answer.done():
                    self._takers.remove(taker)

    def _end_pulls(self, error: MeantimeError) -> None:
        for taker in [taker for taker in self._takers if isinstance(taker, Pull)]:
            taker.end(error)
            self._takers.remove(taker)

    def _end_all(self, error: MeantimeError) -> None:
        for taker in self._takers:
            taker.end(error)
        self._takers.clear()

    def _next_ms(self) -> int:
        """The next instant at which there is something to do, without being woken."""
        now_ms = self._clock.now_ms()
        rooms = [(taker, taker.room(now_ms)) for taker in self._takers]
        instants = [
            taker.deadline_ms if isinstance(taker, Pull) else taker.next_end_ms
            for taker, room in rooms
            if isinstance(taker, Pull) or not room
        ]
        if any(room for _, room in rooms):
            instants += [self._upcoming.next_ms, self._unknown_ms, self._upcoming.look_again_ms(HORIZON_MS // 2)]
            instants += [now_ms] if self._backlog else []
        return min(instants, default=NEVER_MS)

    async def _wait(self, rest: float) -> None:
        if rest:
            await asyncio.sleep(rest)
        if self._wake.is_set() or not self._takers:
            return
        self._alarm_ms = self._next_ms()
        ahead = (self._alarm_ms - self._clock.now_ms()) / 1000
        if ahead <= 0:
            await asyncio.sleep(0)
            return
        alarm = asyncio.get_running_loop().call_later(min(ahead, 5.0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()


def _taker(taker: Consuming, room: int) -> Taker:
    return Taker(taker.consumer_id, taker.lease_ms, room)
