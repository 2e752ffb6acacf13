"""A queue that one worker owns.

    free ──► taken ──► released          the worker gave it up
               └─────► ended             its session is over, or the owner node was removed

The owner node `owners/<queue>` is ephemeral and can be made once: no two workers have a queue at the same time. Taking a
queue writes its record anew, so that every version a former owner knows is stale, and each checkpoint names the version
that the one before it got: a late write of a former owner is refused by ZooKeeper itself.
"""

from contextlib import suppress

import structlog
from msgspec.structs import replace

from meantime.coordination.liveness import SessionLiveness
from meantime.coordination.session import Session, Watch
from meantime.errors import Conflict, CoordinationLost, CorruptRecord, NotFound, VersionMoved
from meantime.workers.model import QueueRecord, QueueSource
from meantime.workers.model import encode as encode_record
from meantime.workers.store import AppStore, Versioned

log = structlog.get_logger(__name__)


class ClaimEnded(Exception):
    """The queue is not owned by this worker any more."""


async def take(
    store: AppStore, queue: str, worker: str, liveness: SessionLiveness, changed: Watch, source: QueueSource | None = None
) -> "QueueClaim | None":
    """The queue, or None while another worker owns it; `changed` is called when either may be different. `source` is for a
    record that says nothing but `last`."""
    path = store.layout.owner(queue)
    await store.session.settle(path)
    node = None
    while node is None:  # released between the attempt and the look: no watch would fire
        with suppress(Conflict):  # perhaps with this session: an earlier attempt whose answer was lost
            await store.session.create(path, worker.encode(), ephemeral=True)
        node = await store.session.exists(path, changed)
    if node.owner != store.session.id:
        return None
    claim = QueueClaim(store, queue, node.created_zxid, liveness, changed, source)
    try:
        await claim.begin()
    except (CorruptRecord, NotFound):
        await claim.release()
        raise
    return claim


class QueueClaim:
    def __init__(
        self,
        store: AppStore,
        queue: str,
        seal: int,
        liveness: SessionLiveness,
        changed: Watch,
        source: QueueSource | None = None,
    ) -> None:
        self.queue = queue
        self.record = QueueRecord()
        self.stale = False
        """Set when the owner node changes: read the record before the next message."""
        self._store = store
        self._session: Session = store.session
        self._session_id = store.session.id
        self._path = store.layout.queue(queue)
        self._seal = seal
        self._liveness = liveness
        self._changed = changed
        self._source = source
        self._version = -1

    @property
    def source(self) -> QueueSource:
        return self.record.source

    async def begin(self) -> None:
        """Read the record and write it again: from here on every other version is stale."""
        while True:
            found = await self._read()
            try:
                self._version = await self._session.set(self._path, encode_record(found.record), found.version)
            except VersionMoved:
                continue
            self.record = found.record
            return

    async def _read(self) -> Versioned:
        """The record, complete: one that was written by hand may leave out where its messages come from."""
        found = await self._store.queue(self.queue)
        if found.record.event_type:
            self._source = found.record.source
            return found
        if self._source is None:
            raise CorruptRecord(f"the ZooKeeper node {self._path} does not say of which event type it is", path=self._path)
        source = {"event_type": self._source.event_type, "partition": self._source.partition}
        return Versioned(replace(found.record, **source), found.version)

    async def checkpoint(self, last: str, cursor: str) -> bool:
        """Record that everything up to this message is done. False when the queue was reset from outside meanwhile:
        `record` has the position that counts. Through a lost connection it waits; raises `ClaimEnded`."""
        while True:
            self._require_session()
            wanted = replace(self.record, last=last, cursor=cursor)
            sent_at = self._liveness.now()
            try:
                self._version = await self._session.set(self._path, encode_record(wanted), self._version)
            except (VersionMoved, NotFound):
                settled = await self.refresh(wanted)
            except CoordinationLost:
                await self._session.wait_connected()
                settled = await self.refresh(wanted)
            else:
                self._liveness.renew(sent_at)
                self.record = wanted
                return True
            if settled is not None:
                return settled

    async def refresh(self, wanted: QueueRecord | None = None) -> bool | None:
        """Look at the record again. True: it has the wanted position. None: it has the position of before, and perhaps other
        flags. False: it was reset. Raises `ClaimEnded` when the queue is not this worker's any more."""
        self.stale = False
        before = self.record
        while True:
            try:
                await self._require_owner()
                found = await self._read()
            except CoordinationLost:
                await self._session.wait_connected()
                self._require_session()
                continue
            except NotFound as error:
                raise ClaimEnded(f"the queue {self.queue} is gone") from error
            break
        self.record, self._version = found.record, found.version
        if wanted is not None and found.record.same_position(wanted):
            return True
        return None if found.record.same_position(before) else False

    async def release(self) -> None:
        """Give the queue back; it may be gone already. The caller has finished with it."""
        if self._session.id == self._session_id:
            await self._session.discard(self._store.layout.owner(self.queue))

    async def _require_owner(self) -> None:
        self._require_session()
        node = await self._session.exists(self._store.layout.owner(self.queue), self._changed)
        if node is None or node.owner != self._session_id or node.created_zxid != self._seal:
            raise ClaimEnded(f"the queue {self.queue} is not this worker's any more")

    def _require_session(self) -> None:
        if self._session.id != self._session_id:
            raise ClaimEnded(f"the ZooKeeper session that had the queue {self.queue} is over")
