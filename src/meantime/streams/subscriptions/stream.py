"""One stream of a subscription: takes its share of the partitions, sends their events, and hands partitions on.

    joined ──► takes, sends, hands over ──► ended by a limit ──► waits for commits ──────────────► left
                     ├──► its client has gone ──► lets others take its partitions ──► takes commits ──► left
                     └──► commit timeout, reset, deleted, session lost ──────────────────────────► left

A partition is handed on when everything that was sent from it is committed, or when the client has taken too long. Sending
follows the client's speed; claims and deadlines are looked after beside it, so that a client which does not read keeps
nothing. A client that has gone keeps nothing either: it can commit until somebody takes the partition, at most until its
time is up. Whoever comes next goes on from the last commit.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol
from uuid import UUID

import structlog

from meantime.coordination.session import Session, SessionState
from meantime.errors import BadCursor, Conflict, MeantimeError, Unavailable
from meantime.streams.catalog.catalog import CatalogEntry
from meantime.streams.cursors import Cursor, NamedPosition
from meantime.streams.model import PartitionKey
from meantime.streams.reading.event_source import Received
from meantime.streams.reading.reader import GRACE_FOR, STREAMED, Reading
from meantime.streams.subscriptions.model import Subscription, SubscriptionStreamOptions
from meantime.streams.subscriptions.rules import ConnectedStream, check_free_slot, plan
from meantime.streams.subscriptions.store import SubscriptionStore
from meantime.streams.subscriptions.stream_registry import StreamRegistry
from meantime.streams.subscriptions.uncommitted import HeldPartition, SubscriptionBatcher, next_overdue_at, overdue

log = structlog.get_logger(__name__)

RETRY_EVERY = 0.5
COMMIT_TIMEOUT = "Commit timeout reached"
"""What clients are told in the last line, in the words of Nakadi."""


class Host(Protocol):
    """What a stream needs of the node that it is on."""

    node_id: str
    reading: Reading
    store: SubscriptionStore
    session: Session

    async def keys(self, subscription: Subscription) -> list[PartitionKey]: ...

    def turn(self) -> AbstractAsyncContextManager[None]: ...


class SubscriptionStream:
    def __init__(
        self, host: Host, subscription: Subscription, options: SubscriptionStreamOptions, registry: StreamRegistry, id: UUID
    ) -> None:
        self.id = id
        self.subscription = subscription
        self._host = host
        self._options = options
        self._registry = registry
        self._sequence = ""
        self._source = host.reading.source()
        self._batcher = SubscriptionBatcher(id, options.limits, options.max_uncommitted)
        self._ends_at = _now() + options.limits.timeout_for
        self._attention = asyncio.Event()
        self._room = asyncio.Event()
        self._over = asyncio.Event()
        self._complete = False
        self._client_gone = False
        self._let_go = False
        self._last_line = b""
        self._log = log.bind(subscription=str(subscription.id), stream=str(id))

    # Sending, at the speed of the client

    async def chunks(self) -> AsyncIterator[bytes]:
        """Whole lines, some at a time."""
        while not self._over.is_set():
            now, committed = _now(), not self._batcher.uncommitted
            if lines := self._batcher.lines(now):
                if committed:
                    self._attention.set()
                yield b"".join(lines)
            if self._batcher.finished or now >= self._ends_at:
                self._complete = True
                yield b"".join(self._batcher.rest(now))
                return
            await self._wait_for_more(min(self._batcher.due_at(now), self._ends_at) - now)
        if self._last_line:
            yield self._last_line

    async def cut(self) -> None:
        """The end of a stream whose client does not read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.limits.timeout_for + GRACE_FOR):
                await self._over.wait()
                await asyncio.sleep(1.0)

    def close(self) -> None:
        """The client has gone, or has had all that it asked for; it can still commit."""
        if not self._client_gone:
            self._client_gone = True
            self._source.close()
            self._host.reading.leave()
            self._attention.set()

    async def _wait_for_more(self, wait_for: float) -> None:
        if self._batcher.full:
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_for):
                    await self._room.wait()
            return
        received = await self._source.next(wait_for)
        self._add(received)
        if received.gone:
            self.end("an event type was deleted")
        for key in set(received.lost):
            await self._skip_what_expired(key)

    def _add(self, received: Received) -> None:
        for chunk in received.chunks:
            held = self._batcher.partitions.get(chunk.key)
            if held is not None:
                held.buffer.append(chunk.order, chunk.first, chunk.values)
                STREAMED.add(chunk.key[0], len(chunk.values))

    async def _skip_what_expired(self, key: PartitionKey) -> None:
        if key not in self._batcher.partitions:
            return
        self._log.warning("events_expired_unread", event_type=key[0], partition=key[1])
        entry = await self._host.reading.catalog.reload(key[0])
        oldest = await self._host.reading.offsets(entry).readable(key[1], NamedPosition.BEGIN)
        self._source.drop([key])
        await self._source.add({key: oldest})

    # Commits and ends, from wherever they come

    def reached(self, key: PartitionKey) -> Cursor | None:
        """The last place that the client was sent; None if the stream does not hold the partition."""
        held = self._batcher.partitions.get(key)
        return None if held is None else held.reached

    def commit(self, key: PartitionKey, cursor: Cursor) -> None:
        held = self._batcher.partitions.get(key)
        if held is not None:
            held.commit(cursor, _now())
            self._room.set()
            self._source.wake()
            if held.leaving:
                self._attention.set()

    def end(self, reason: str) -> None:
        """Give everything up at once."""
        if not self._over.is_set():
            self._log.info("subscription_stream_ended", reason=reason)
            self._over.set()
            self._wake()

    def _wake(self) -> None:
        self._attention.set()
        self._room.set()
        self._source.wake()

    # Claims and deadlines, whatever the client does

    async def join(self) -> None:
        """Register this stream, unless there is nothing left to read or the cursors are being reset."""
        direct = self._options.direct
        self._sequence = await self._registry.join(self.id, self._host.node_id, direct)
        try:
            await self._registry.look()
            if self._registry.resetting:
                raise Conflict("the cursors of this subscription are being reset; try again when that is done")
            me = ConnectedStream(str(self.id), self._sequence, direct)
            check_free_slot(await self._host.keys(self.subscription), self._registry.readers, me)
        except BaseException:
            await self._registry.leave(self._sequence)
            raise

    async def run(self) -> None:
        """Until the stream has ended and everything it held is committed or given up."""
        stop_listening = self._host.session.on_change(self._session_changed)
        try:
            async with self._registry.following(self._attention.set):
                while await self._look_after():
                    await self._until_attention()
        except Exception:
            # A node that stops cancels this: what was sent can then still be committed elsewhere.
            self._over.set()
            await self._give_all_up()
            raise
        finally:
            stop_listening()
            self._over.set()
            self._source.close()

    async def _look_after(self) -> bool:
        """One round; False when there is nothing left to look after."""
        self._attention.clear()
        try:
            return await self._round(_now())
        except Unavailable as error:
            self._log.warning("subscription_stream_waits", error=error.detail)
            await asyncio.sleep(RETRY_EVERY)
            self._attention.set()
            return True

    async def _round(self, now: float) -> bool:
        self._judge(now)
        if self._over.is_set() or self._client_gone:
            await self._leave_registry()
            await self._let_others_take()
        else:
            await self._follow_plan()
        for held in list(self._batcher.partitions.values()):
            if self._over.is_set() or (held.leaving and self._settled(held, now)):
                await self._give_up(held.key)
        return bool(self._batcher.partitions) or not (self._over.is_set() or self._client_gone)

    def _judge(self, now: float) -> None:
        if self._registry.resetting:
            self.end("the cursors are being reset")
            return
        late = [held for held in overdue(self._batcher.partitions, self._options.commit_for, now) if not held.leaving]
        if late:
            self._last_line = self._batcher.debug_line(late[0], COMMIT_TIMEOUT)
            self.end("nothing was committed in time")

    def _settled(self, held: HeldPartition, now: float) -> bool:
        overdue_at = held.overdue_at(self._options.commit_for)
        return overdue_at is None or overdue_at <= now

    async def _follow_plan(self) -> None:
        owners, readers = self._registry.owners, self._registry.readers
        if not any(reader.sequence == self._sequence for reader in readers):
            self.end("its registration is gone")
            return
        planned = plan(await self._host.keys(self.subscription), readers, owners)
        mine = {key for key, stream_id in planned.items() if stream_id == str(self.id)}
        for key, held in self._batcher.partitions.items():
            held.leaving = key not in mine
        carried = self._carrying_my_id() - self._batcher.partitions.keys()
        for key in carried - mine:
            await self._give_up(key)
        free = [key for key in sorted(mine) if key not in owners or key in carried]
        await self._take([key for key in free if key not in self._batcher.partitions])

    async def _take(self, keys: list[PartitionKey]) -> None:
        """All at once, each on its own: one that fails keeps no other from being read, and is tried again in a while."""
        outcomes = await asyncio.gather(*map(self._take_one, keys), return_exceptions=True)
        taken = [key for key, outcome in zip(keys, outcomes, strict=True) if outcome is True]
        if taken:
            self._log.info("partitions_taken", partitions=[f"{event_type}:{partition}" for event_type, partition in taken])
            self._wake()
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in sorted(failures, key=lambda failure: isinstance(failure, Unavailable)):
            raise failure

    async def _take_one(self, key: PartitionKey) -> bool:
        """Claim the partition and begin to read it; whatever fails on the way, it is not left half taken."""
        try:
            committed = await self._claim(key)
            if committed is not None:
                await self._begin(key, committed)
        except BaseException:
            await self._give_up(key)
            raise
        return committed is not None

    async def _claim(self, key: PartitionKey) -> Cursor | None:
        """Hold the partition in ZooKeeper, then in PostgreSQL, where commits are checked."""
        number = await self._registry.take(key, self.id)
        if number is None:
            return None
        claim = (self.subscription.id, key, self.id, self._host.node_id, number)
        async with self._host.turn():
            committed = await self._host.store.claim(*claim)
            if committed is None and await self._registry.holds(key, self.id) == number:
                committed = await self._host.store.claim(*claim, forced=True)
        if committed is None:
            await self._registry.give_up(key, self.id)
        return committed

    async def _begin(self, key: PartitionKey, committed: Cursor) -> None:
        name, partition = key
        offsets = self._host.reading.offsets(await self._host.reading.catalog.entry(name))
        try:
            place = await offsets.readable(partition, as_known(offsets.entry, committed))
        except BadCursor as unreadable:
            self._log.warning("committed_place_is_gone", event_type=name, partition=partition, why=unreadable.reason)
            place = await offsets.readable(partition, NamedPosition.BEGIN)
        self._batcher.partitions[key] = HeldPartition(key, committed, place, _now())
        await self._source.add({key: place}, at_end=[key] if offsets.at_end(partition, place) else ())

    async def _give_up(self, key: PartitionKey) -> None:
        """Hold the partition no longer; what ZooKeeper cannot be told now it is told when it is there again."""
        self._batcher.partitions.pop(key, None)
        self._source.drop([key])
        with suppress(Unavailable):
            await self._host.store.release(self.subscription.id, key, self.id)
        await self._registry.give_up(key, self.id)
        self._room.set()

    async def _give_all_up(self) -> None:
        """Also what carries this stream's id although it was never held."""
        for key in {*self._batcher.partitions, *self._carrying_my_id()}:
            with suppress(MeantimeError):
                await self._give_up(key)
        with suppress(MeantimeError):
            await self._leave_registry()

    def _carrying_my_id(self) -> set[PartitionKey]:
        return {key for key, stream_id in self._registry.owners.items() if stream_id == str(self.id)}

    async def _leave_registry(self) -> None:
        """From now on others may plan without this stream; its partitions follow when they are committed."""
        if self._sequence:
            sequence, self._sequence = self._sequence, ""
            await self._registry.leave(sequence)
        for held in self._batcher.partitions.values():
            held.leaving = True

    async def _let_others_take(self) -> None:
        """Whose client went away in the middle waits for nobody: the partitions are free, though still committed from here
        until another stream has one of them. A client that has read to the end of its stream commits after it."""
        if self._client_gone and not self._complete and not self._let_go:
            self._let_go = True
            for key in self._batcher.partitions:
                await self._registry.give_up(key, self.id)

    async def _until_attention(self) -> None:
        at = next_overdue_at(self._batcher.partitions, self._options.commit_for)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(at):
                await self._attention.wait()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self.end("the ZooKeeper session was lost")


def as_known(entry: CatalogEntry, committed: Cursor) -> Cursor:
    """A committed cursor as its event type shows it: a fake timeline has no number yet."""
    return Cursor(0, committed.offset) if entry.timelines[0].fake else committed


def _now() -> float:
    return asyncio.get_running_loop().time()
