"""Leases what is due in one topic and gives it to the pulls and streams of this node: one loop per topic and node.

    wait ──► look who has room ──► lease what is due ──► hand it over ──► look ahead ──► wait

It waits for the next instant that it knows of, or until it is woken: by a new receiver, by a lease that ended, by a
notification of a message. Two ways lead to a lease. What was prefetched is leased by id and version at its instant, for the
consumer that has its bucket. Where more is due than is known, whatever is due is leased in time order by one statement. Both
check everything again in the database, so two nodes that serve the same topic can only waste time, not lease twice.

Whether this node may lease at all is decided here: no receiver is admitted, and nothing is leased, while it is not healthy.

While nothing is due within the horizon it does not look ahead by itself: it is `idle`, and one look of the node covers all
that are. Whoever finds something there, or hears of something, wakes it.

Dead rows, above all those that an old snapshot keeps alive, would have to be skipped at the beginning of every scan. So
scans start at a floor that follows what was leased. A notification of something below lowers it; and because notifications
may be lost, the whole past is scanned regularly.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from meantime.clock import Clock
from meantime.errors import MeantimeError, NotFound, StorageUnavailable, Unavailable
from meantime.supervision import supervised
from meantime.tasks import end, start
from meantime.topics.catalog import TopicCatalog
from meantime.topics.leasing.bucket_shares import BucketShares, assign
from meantime.topics.leasing.prefetch import NEVER_MS, Upcoming
from meantime.topics.leasing.receivers import LeaseStream, PendingPull, Receiver, demand_of, demands_of
from meantime.topics.meters import LATENESS, METERS
from meantime.topics.model import Due, Lease, Topic
from meantime.topics.rules import MIN_AHEAD_MS, interleave
from meantime.topics.storage.messages import FIRST_MS, HolderRow, LeaseDemand, MessageStore, Window

HORIZON_MS = 1000
PREFETCH = 1000
HELP_AFTER_MS = 25
FLOOR_MARGIN_MS = 200
MOST_AT_ONCE = 10_000
FULL_SCAN_EVERY = 1.0
REST_FOR = 0.02
LONGEST_WAIT, LONGEST_IDLE = 5.0, 60.0
"""Seconds after which it looks around, woken or not."""

log = structlog.get_logger(__name__)


class LeaseDispatcher:
    """`require_healthy` raises `Degraded` while this node may issue no lease."""

    def __init__(
        self,
        name: str,
        catalog: TopicCatalog,
        messages: MessageStore,
        clock: Clock,
        require_healthy: Callable[[], None],
    ) -> None:
        self.require_healthy = require_healthy
        self._name = name
        self._catalog = catalog
        self._messages = messages
        self._clock = clock
        self._receivers: list[Receiver] = []
        self._upcoming = Upcoming(HELP_AFTER_MS, few=PREFETCH // 4, most=4 * PREFETCH)
        self._shares = BucketShares()
        self._meanwhile: list[Due] | None = None
        self._undeliverable: list[Lease] = []
        self._unknown_ms = NEVER_MS
        self._alarm_ms = NEVER_MS
        self._backlog = True
        self._floor_ms = FIRST_MS
        self._announced_ms = NEVER_MS
        self.idle = False
        """Waiting, with room, and nothing is known to become due."""
        self.announcements = 0
        """How often something new was heard of."""
        self._full_scan_at = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def streams(self) -> list[LeaseStream]:
        return [receiver for receiver in self._receivers if isinstance(receiver, LeaseStream)]

    def join(self, receiver: Receiver) -> None:
        self._receivers.append(receiver)
        self._backlog = self._backlog or isinstance(receiver, LeaseStream)
        self.wake()
        if self._task is None or self._task.done():
            self._task = start(supervised(self._run, "lease dispatcher", self._name), name=f"dispatcher {self._name}")

    def leave(self, receiver: Receiver) -> None:
        if receiver in self._receivers:
            self._receivers.remove(receiver)
            self.wake()

    async def stop(self) -> None:
        if self._task:
            await end(self._task)

    def wake(self) -> None:
        self._wake.set()

    def arrived(self, dues: Sequence[Due]) -> None:
        """Messages have a new instant; this node made the change."""
        self._announce(min((due.at_ms for due in dues), default=NEVER_MS))
        if not self._receivers:
            self._backlog = True
            return
        if self._meanwhile is not None:
            self._meanwhile += dues
        if not all(self._upcoming.add(due) for due in dues):
            self._upcoming.forget()
            self._backlog = True
        if self._backlog or self._upcoming.next_ms < self._alarm_ms:
            self.wake()
        elif self.idle and self._upcoming.known_until_ms < self._announced_ms <= self._clock.now_ms() + HORIZON_MS:
            self.look()

    def arrived_elsewhere(self, at_ms: int) -> None:
        """Messages have a new instant; another node made the change, and says only the earliest."""
        self._announce(at_ms)
        if at_ms < self._unknown_ms:
            self._unknown_ms = at_ms
            self.wake()

    @property
    def floor_ms(self) -> int:
        """Nothing that is due lies before it, as far as is known."""
        return self._floor_ms

    def nothing_until(self, at_ms: int) -> None:
        """Somebody has looked: nothing becomes due until then."""
        if self.idle:
            self._upcoming.known_until_ms = max(at_ms, self._upcoming.known_until_ms)

    def look(self) -> None:
        """Something becomes due within the horizon, or may."""
        self._upcoming.forget()
        self.wake()

    def _announce(self, at_ms: int) -> None:
        """There is something at this instant, and a scan that is going on may have missed it."""
        self.announcements += 1
        self._floor_ms = min(self._floor_ms, at_ms)
        self._announced_ms = min(self._announced_ms, at_ms)

    def doubt(self, consumer_id: str | None) -> None:
        """What is known of a consumer's leases (None: of all) may be wrong: a stream without room may have some now."""
        for stream in self.streams:
            if consumer_id in (None, stream.consumer_id):
                stream.doubtful = True
        self.wake()

    def set_shares(self, shares: BucketShares) -> None:
        """Consumers came or went, here or elsewhere."""
        if shares != self._shares:
            self._shares = shares
            self._upcoming.forget()
            self._announce(FIRST_MS)
            self._backlog = True
            self.wake()

    async def _run(self) -> None:
        while self._receivers:
            self._wake.clear()
            try:
                rest = await self._round()
            except NotFound as error:
                self._end_all(error)
                return
            except StorageUnavailable as error:
                self._start_over(error)
                rest = 0.25
            except Exception:
                self._start_over(Unavailable(f"topic {self._name!r} cannot be leased from at the moment"))
                raise
            await self._wait(rest)

    async def _round(self) -> float:
        """One look and what follows from it; the seconds to rest in any case before the next one."""
        topic = await self._catalog.get(self._name)
        try:
            self.require_healthy()
        except MeantimeError as error:
            return self._pause(error)
        await self._resolve_doubts(topic)
        now_ms = self._clock.now_ms()
        receivers = [(receiver, room) for receiver in self._receivers if (room := receiver.room(now_ms))]
        took = await self._take(topic, receivers, now_ms) if receivers else 0
        self._end_late_pulls()
        await self._release_undeliverable(topic)
        if receivers and not self._backlog:
            await self._look_ahead(topic)
        # Only what was due already when nothing could be leased is a reason to rest: another node is leasing it.
        return REST_FOR if receivers and not took and self._upcoming.due(now_ms) else 0.0

    def _pause(self, error: MeantimeError) -> float:
        """Lease nothing for a moment."""
        self._start_over(error)
        return 0.1

    def _start_over(self, error: MeantimeError) -> None:
        """Forget what a round that was broken off may have left half done; pulls are told why."""
        self._end_pulls(error)
        self._backlog = True
        self._upcoming.forget()

    async def _resolve_doubts(self, topic: Topic) -> None:
        now_ms = self._clock.now_ms()
        streams = [stream for stream in self.streams if stream.must_look(now_ms)]
        if not streams:
            return
        for stream in streams:
            stream.begin_look()
        try:
            held = await self._messages.held_ends(topic, [stream.consumer_id for stream in streams], now_ms)
        except BaseException:
            self.doubt(None)
            raise
        for stream in streams:
            stream.finish_look(held.get(stream.consumer_id, {}))

    async def _take(self, topic: Topic, receivers: list[tuple[Receiver, int]], now_ms: int) -> int:
        leases: list[Lease] = []
        untried = any(isinstance(receiver, PendingPull) and not receiver.tried for receiver, _ in receivers)
        if self._backlog or untried or self._unknown_ms <= now_ms:
            leases = await self._take_due(topic, receivers, now_ms)
        elif self._upcoming.due(now_ms):
            leases = await self._take_known(topic, receivers, now_ms)
        for receiver, _ in receivers:
            if isinstance(receiver, PendingPull):
                receiver.tried = True
        self._hand_over(topic, leases, receivers, now_ms)
        return len(leases)

    async def _take_due(self, topic: Topic, receivers: list[tuple[Receiver, int]], now_ms: int) -> list[Lease]:
        """Whatever is due, the oldest first. A pull looks in all buckets, streams in their own."""
        full = time.monotonic() >= self._full_scan_at
        pulling = any(isinstance(receiver, PendingPull) for receiver, _ in receivers)
        buckets = None if pulling else self._shares.buckets
        demands = demands_of(receivers)
        turns = interleave([demand.room for demand in demands], MOST_AT_ONCE)
        window = Window(FIRST_MS if full else self._floor_ms, now_ms, buckets, self._shares.exclusive)
        self._unknown_ms = NEVER_MS if self._unknown_ms <= now_ms else self._unknown_ms
        self._upcoming.forget()
        self._announced_ms = NEVER_MS
        began = time.monotonic()
        leases = await self._messages.lease_due(topic, demands, turns, window, now_ms)
        if full:
            self._plan_full_scan(began)
        self._floor_ms = min(self._announced_ms, (leases[0].due_at_ms if leases else now_ms) - FLOOR_MARGIN_MS)
        self._backlog = len(leases) == len(turns)
        return leases

    async def _take_known(self, topic: Topic, receivers: list[tuple[Receiver, int]], now_ms: int) -> list[Lease]:
        """What was prefetched, each for the consumer that has its bucket if that one has room."""
        demands: dict[str, LeaseDemand] = {}
        for receiver, room in receivers:
            other = demands.get(receiver.consumer_id)
            demands[receiver.consumer_id] = demand_of(receiver, room + (other.room if other else 0))
        dues = self._upcoming.take(now_ms, min(MOST_AT_ONCE, sum(room for _, room in receivers)))
        return await self._messages.lease_known(topic, assign(dues, demands, self._shares), now_ms)

    async def _look_ahead(self, topic: Topic) -> None:
        """Prefetch what becomes due within the horizon, if it is not known far enough."""
        now_ms = self._clock.now_ms()
        if self._upcoming.look_again_ms(HORIZON_MS // 2) > now_ms:
            return
        full = time.monotonic() >= self._full_scan_at or self._shares.own is not None
        until_ms = now_ms + HORIZON_MS
        began = time.monotonic()
        self._meanwhile = []
        try:
            dues = await self._messages.upcoming(topic, FIRST_MS if full else self._floor_ms, until_ms, PREFETCH)
        finally:
            meanwhile, self._meanwhile = self._meanwhile, None
        if full:
            self._plan_full_scan(began)
        self._upcoming.replace(dues, until_ms, len(dues) == PREFETCH, self._shares.own)
        self._backlog = self._shares.own is None and self._upcoming.known_until_ms <= now_ms
        self.arrived(meanwhile)

    def _plan_full_scan(self, began: float) -> None:
        """Where it is slow, it is done less often."""
        took = time.monotonic() - began
        self._full_scan_at = time.monotonic() + max(FULL_SCAN_EVERY, 20 * took)

    def _hand_over(self, topic: Topic, leases: Sequence[Lease], receivers: list[tuple[Receiver, int]], now_ms: int) -> None:
        tally = METERS.of(topic.topic_id)
        shares: dict[str, list[Lease]] = {}
        for lease in leases:
            shares.setdefault(lease.consumer_id, []).append(lease)
        LATENESS.observe([max(0, now_ms - lease.due_at_ms) / 1000 for lease in leases])
        for receiver, room in receivers:
            share = shares.get(receiver.consumer_id, [])
            mine, shares[receiver.consumer_id] = share[:room], share[room:]
            if mine and not receiver.offer(mine):
                self._undeliverable += mine
            elif mine:
                tally.lease(len(mine), pulled=isinstance(receiver, PendingPull))
                self._account(receiver, mine)

    async def _release_undeliverable(self, topic: Topic) -> None:
        """What was leased for a caller who had gone meanwhile is free again at once."""
        if self._undeliverable:
            now_ms = self._clock.now_ms()
            rows = [
                HolderRow(topic.topic_id, one.id, one.version, one.consumer_id, now_ms + MIN_AHEAD_MS)
                for one in sorted(self._undeliverable, key=lambda one: one.id)
            ]
            await self._messages.release(rows, now_ms)
            self._undeliverable.clear()
            self._unknown_ms = min(self._unknown_ms, now_ms + MIN_AHEAD_MS)

    def _account(self, receiver: Receiver, leases: Sequence[Lease]) -> None:
        """Leases that a consumer pulls count against the buffer of its stream."""
        for stream in self.streams:
            if stream is not receiver and stream.consumer_id == receiver.consumer_id:
                for lease in leases:
                    stream.hold(lease.id, lease.at_ms)

    def _end_late_pulls(self) -> None:
        now_ms = self._clock.now_ms()
        staying: list[Receiver] = []
        for receiver in self._receivers:
            if isinstance(receiver, PendingPull):
                if receiver.tried and receiver.deadline_ms <= now_ms:
                    receiver.offer([])
                if receiver.answer.done():
                    continue
            staying.append(receiver)
        self._receivers = staying

    def _end_pulls(self, error: MeantimeError) -> None:
        for receiver in [receiver for receiver in self._receivers if isinstance(receiver, PendingPull)]:
            receiver.end(error)
            self._receivers.remove(receiver)

    def _end_all(self, error: MeantimeError) -> None:
        for receiver in self._receivers:
            receiver.end(error)
        self._receivers.clear()

    def _next_ms(self) -> int:
        """The next instant at which there is something to do, without being woken."""
        now_ms = self._clock.now_ms()
        rooms = [(receiver, receiver.room(now_ms)) for receiver in self._receivers]
        instants = [
            receiver.deadline_ms if isinstance(receiver, PendingPull) else receiver.next_end_ms
            for receiver, room in rooms
            if isinstance(receiver, PendingPull) or not room
        ]
        self.idle = self._nothing_known(now_ms) and any(room for _, room in rooms)
        if not self.idle and any(room for _, room in rooms):
            instants += [self._upcoming.next_ms, self._unknown_ms, self._upcoming.look_again_ms(HORIZON_MS // 2)]
            instants += [now_ms] if self._backlog else []
        return min(instants, default=NEVER_MS)

    def _nothing_known(self, now_ms: int) -> bool:
        nothing = not self._backlog and not self._upcoming and self._unknown_ms == NEVER_MS
        return nothing and self._upcoming.known_until_ms > now_ms

    async def _wait(self, rest: float) -> None:
        if rest:
            await asyncio.sleep(rest)
        if self._wake.is_set() or not self._receivers:
            return
        self._alarm_ms = self._next_ms()
        ahead = (self._alarm_ms - self._clock.now_ms()) / 1000
        if ahead <= 0:
            self.idle = False
            await asyncio.sleep(0)
            return
        longest = LONGEST_IDLE if self.idle else LONGEST_WAIT
        alarm = asyncio.get_running_loop().call_later(min(ahead, longest), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()
            self.idle = False
