"""The streams of a subscription, as they see each other in ZooKeeper, on whatever nodes they are.

    <root>/subscriptions/<id>/sessions/<sequence>        ephemeral: a connected stream, and the partitions it asked for
    <root>/subscriptions/<id>/owners/<event type>:<p>    ephemeral: the stream that holds a partition
    <root>/subscriptions/<id>/reset                      ephemeral: cursors are being reset, every stream has to end

Creating the node of a partition is taking it: there is one holder at any time. When a stream was claimed for the database,
the number of that node's creation fences off everybody who held it before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from uuid import UUID

import msgspec
import structlog

from meantime.coordination.session import Session
from meantime.coordination.views import ChildrenView
from meantime.errors import UNREADABLE, Conflict, CoordinationLost, NotFound
from meantime.streams.model import PartitionKey
from meantime.streams.subscriptions.rules import ConnectedStream
from meantime.supervision import kept_running

log = structlog.get_logger(__name__)


class StreamNode(msgspec.Struct, frozen=True):
    stream_id: str
    node_id: str
    direct: list[PartitionKey] | None = None


class StreamRegistry:
    """One subscription's part of ZooKeeper. `changed` is called after every change of what can be seen here."""

    def __init__(self, session: Session, id: UUID) -> None:
        self._session = session
        self._root = session.layout.subscription(str(id))
        self._sessions = ChildrenView(session, f"{self._root}/sessions")
        self._owners = ChildrenView(session, f"{self._root}/owners")
        self._top = ChildrenView(session, self._root)

    @property
    def readers(self) -> list[ConnectedStream]:
        found = (_reader(sequence, data) for sequence, data in sorted(self._sessions.current.items()))
        return [reader for reader in found if reader is not None]

    @property
    def owners(self) -> dict[PartitionKey, str]:
        found = ((_key(name), data) for name, data in self._owners.current.items())
        return {key: data.decode("utf-8", "replace") for key, data in found if key is not None}

    @property
    def resetting(self) -> bool:
        return "reset" in self._top.current

    async def look(self) -> None:
        """See everything that had happened before this call."""
        for directory in (self._top, self._sessions, self._owners):
            await directory.refresh()

    async def join(self, stream_id: UUID, node_id: str, direct: frozenset[PartitionKey] | None) -> str:
        """Register a stream; returns its sequence number, which is the name of its node."""
        node = StreamNode(str(stream_id), node_id, None if direct is None else sorted(direct))
        await self._session.ensure(f"{self._root}/owners")
        path = await self._session.create(
            f"{self._root}/sessions/", msgspec.json.encode(node), ephemeral=True, sequence=True
        )
        return path.rpartition("/")[2]

    async def leave(self, sequence: str) -> None:
        with suppress(CoordinationLost):
            await self._session.discard(f"{self._root}/sessions/{sequence}")

    async def take(self, key: PartitionKey, stream_id: UUID) -> int | None:
        """Hold the partition; the number that fences earlier holders off, or None when another stream has it. One that this
        stream took before without hearing of it is its own."""
        path = self._owner(key)
        await self._session.settle(path)
        with suppress(Conflict):
            await self._session.create(path, str(stream_id).encode(), ephemeral=True)
        return await self.holds(key, stream_id)

    async def holds(self, key: PartitionKey, stream_id: UUID) -> int | None:
        try:
            node = await self._session.get(self._owner(key))
        except NotFound:
            return None
        return node.created_zxid if node.data == str(stream_id).encode() and node.owner == self._session.id else None

    async def give_up(self, key: PartitionKey, stream_id: UUID) -> None:
        """Nobody else's claim is touched. Without a connection it is done as soon as there is one."""
        with suppress(CoordinationLost):
            await self._session.discard(self._owner(key), str(stream_id).encode())

    @asynccontextmanager
    async def reset(self) -> AsyncIterator[None]:
        """Make every stream end and none begin while the block runs; Conflict when another reset is running."""
        path = f"{self._root}/reset"
        await self._session.settle(path)
        try:
            await self._session.create(path, ephemeral=True)
        except Conflict:
            raise Conflict("the cursors of this subscription are being reset already") from None
        try:
            yield
        finally:
            with suppress(CoordinationLost):
                await self._session.discard(path)

    async def until_empty(self, wait_for: float) -> bool:
        """Wait until no stream is registered or holds a partition."""
        changed = asyncio.Event()
        try:
            async with asyncio.timeout(wait_for), self.following(changed.set):
                await self.look()  # else nothing is known yet, which looks like nothing
                while self._sessions.current or self._owners.current:
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return False
        return True

    async def remove(self) -> None:
        """Take the nodes of a deleted subscription away, once its streams have gone."""
        for name in ("sessions", "owners", ""):
            with suppress(NotFound, Conflict):
                await self._session.delete(f"{self._root}/{name}".rstrip("/"))

    @asynccontextmanager
    async def following(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        async with AsyncExitStack() as opened:
            for directory in (self._top, self._sessions, self._owners):
                directory.on_change(changed)
                await opened.enter_async_context(kept_running(directory.run, "stream registry"))
            yield

    def _owner(self, key: PartitionKey) -> str:
        return f"{self._root}/owners/{key[0]}:{key[1]}"


def _key(name: str) -> PartitionKey | None:
    event_type, _, partition = name.rpartition(":")
    try:
        return event_type, int(partition)
    except UNREADABLE:
        log.warning("partition_owner_not_understood", node=name)
        return None


def _reader(sequence: str, data: bytes) -> ConnectedStream | None:
    try:
        node = msgspec.json.decode(data, type=StreamNode)
    except UNREADABLE as error:
        log.warning("stream_record_not_understood", node=sequence, error=str(error))
        return None
    direct = None if node.direct is None else frozenset(node.direct)
    return ConnectedStream(node.stream_id, sequence, direct)
