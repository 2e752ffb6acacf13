"""The outbound half of a time buffer: messages leased at their instant, handed to the target, deleted.

    lease ──► publish together with the list of ids ──► delete
                │ crash before: the leases are found again and published
                └ crash after: the list says what was published; it is deleted and not published again

One batch at a time: the next one is published only when the last one is deleted, so the list never has to hold more than a
batch. A target says which ids went out last (`published`), and takes records and ids in one step (`publish`). A message that
is no record of the buffer is kept aside, and holds nobody up.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from meantime.errors import MeantimeError
from meantime.pipelines.buffer.model import BufferedRecord, decode_record
from meantime.pipelines.buffer.refused import RefusedFile
from meantime.pipelines.spark.meters import BufferLateness
from meantime.pipelines.topics.leases import HeldLease, delete, held_leases, take
from meantime.sdk.client import Client

LIMIT = 2000
LEASE_FOR = 60.0
WAIT_FOR = 1.0

log = structlog.get_logger(__name__)


class Target(Protocol):
    def published(self) -> set[str]:
        """The ids of the last batch that is known to have been published."""
        ...

    def publish(self, ids: Sequence[str], records: Sequence[BufferedRecord]) -> None:
        """All of them or none; `ids` may name more, which went out before and are not deleted yet."""
        ...


@dataclass
class Outbound:
    client: Client
    topic: str
    consumer_id: str
    target: Target
    refused: RefusedFile
    lateness: BufferLateness = field(default_factory=BufferLateness)
    _in_doubt: set[str] = field(default_factory=set)

    def run(self, stopping: Callable[[], bool], *, once: bool = False) -> None:
        """Until told to stop; with `once` until nothing is due."""
        batch = self.resume()
        while not stopping():
            if batch:
                self.send(batch)
            batch = take(
                self.client, self.topic, self.consumer_id, limit=LIMIT, lease_for=LEASE_FOR, wait_for=0 if once else WAIT_FOR
            )
            if once and not batch:
                return
        self._release(batch)

    def resume(self) -> list[HeldLease]:
        """What an earlier process has leased and not published."""
        self._in_doubt = self.target.published()
        found = held_leases(self.client, self.topic, self.consumer_id, lease_for=LEASE_FOR)
        done = [one for one in found if one.id in self._in_doubt]
        left = [one for one in found if one.id not in self._in_doubt]
        self._forget(done)  # after which they are in doubt no more
        return left

    def send(self, batch: Sequence[HeldLease]) -> None:
        fresh = [one for one in batch if one.id not in self._in_doubt]
        records = self._records(fresh)
        if records:
            self.target.publish([*records, *self._in_doubt], list(records.values()))
            now_ms = self.client.now() * 1000
            self.lateness.note([now_ms - one.created_for_ms for one in fresh if one.id in records])
            self._in_doubt |= records.keys()
        self._forget(batch)

    def _records(self, leases: Sequence[HeldLease]) -> dict[str, BufferedRecord]:
        """By id, those that are records."""
        records = {}
        for one in leases:
            body = bytes(one.body) if one.body_b64 is None else one.body_b64
            record = decode_record(body) if one.body_b64 is None else None
            if record is None:
                self.refused.keep(body, f"message {one.id!r} of {one.producer_group!r} is no record of this buffer")
            else:
                records[one.id] = record
        return records

    def _forget(self, batch: Sequence[HeldLease]) -> None:
        """Delete by lease; what a lease no longer covers, as the owner."""
        late = set(delete(self.client, self.topic, self.consumer_id, batch))
        rest = sorted(late | (self._in_doubt - {one.id for one in batch}))
        outcomes = self.client.delete_messages(self.topic, rest) if rest else []
        self._in_doubt = {outcome.id for outcome in outcomes if outcome.status == "leased"}

    def _release(self, batch: Sequence[HeldLease]) -> None:
        if batch:
            self.client.release_leases(self.topic, self.consumer_id, batch, after=0)


def run_until_stopped(outbound: Outbound, stopping: Callable[[], bool], *, once: bool = False) -> None:
    """Goes on after errors that pass: nodes and brokers that are gone for a while."""
    while not stopping():
        try:
            outbound.run(stopping, once=once)
            return
        except MeantimeError as error:
            if not error.retryable:
                raise
            log.warning("buffer_outbound_interrupted", topic=outbound.topic, error=error.detail)
            time.sleep(1.0)
