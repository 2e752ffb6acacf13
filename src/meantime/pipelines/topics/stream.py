"""`readStream.format("meantime.topic")`: due messages, batch by batch, each taken once.

A batch is leased under a consumer id of its own, made of the query's identity and the batch's number, before Spark writes
down that there is such a batch. So a batch that is replayed after a crash is the same batch: what that consumer holds.

    latestOffset: lease ──► Spark logs the offset ──► partitions: what was leased ──► commit: delete
                                  └── crash, restart ──► partitions: what is still held under the batch's name

The offset is `{query, batch, until_ms}`; leases of the batch end at `until_ms` or before, which tells them from any that a
node adds later. A lease must outlive the longest interruption (`lease_ms`): a message whose lease has run out is due
again and comes in a later batch.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from meantime.pipelines.spark.broker import client_of
from meantime.pipelines.spark.causes import cause_first
from meantime.pipelines.spark.options import MOST_PER_CALL, TopicOptions
from meantime.pipelines.topics.leases import HeldLease, delete, held_leases, take
from meantime.sdk.client import Client

PER_TASK = 2500

Row = tuple[Any, ...]
Offset = dict[str, Any]


class MessagesPartition(datasource.InputPartition):
    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows


@cause_first
class TopicStreamReader(datasource.DataSourceStreamReader):
    def __init__(self, settings: TopicOptions) -> None:
        self._settings = settings
        self._batches: dict[int, list[HeldLease]] = {}
        self._returned = True
        """Whether an earlier process of this query may have left leases behind."""

    def initialOffset(self) -> Offset:  # noqa: N802
        self._returned = False
        return {"query": uuid4().hex[:16], "batch": 0, "until_ms": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._settings.max_per_batch)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else MOST_PER_CALL
        number = start["batch"]
        with client_of(self._settings.broker) as client:
            self._finish(client, start)
            taken = self._batches.get(number) or self._lease(client, consumer_of(start, number), most)
        if not taken:
            return start
        self._batches[number] = taken
        return {"query": start["query"], "batch": number + 1, "until_ms": max(one.at_ms for one in taken)}

    def partitions(self, start: Offset, end: Offset) -> list[MessagesPartition]:
        number = end["batch"] - 1
        if number not in self._batches:
            with client_of(self._settings.broker) as client:
                self._finish(client, start)
                self._batches[number] = self._found_again(client, end)
        rows = [self._row(one, consumer_of(end, number)) for one in self._batches[number]]
        return [MessagesPartition(rows[first : first + PER_TASK]) for first in range(0, len(rows), PER_TASK)] or [
            MessagesPartition([])
        ]

    def read(self, partition: datasource.InputPartition) -> Iterator[Row]:
        assert isinstance(partition, MessagesPartition)
        return iter(partition.rows)

    def commit(self, end: Offset) -> None:
        with client_of(self._settings.broker) as client:
            self._finish(client, end)

    def _finish(self, client: Client, offset: Offset) -> None:
        """All batches before this offset are done; after a restart the last of them may not be deleted yet."""
        last = offset["batch"] - 1
        if self._returned and last >= 0 and not self._batches:
            self._batches[last] = self._found_again(client, offset)
        for number in [number for number in self._batches if number <= last]:
            delete(client, self._settings.topic, consumer_of(offset, number), self._batches.pop(number))

    def _lease(self, client: Client, consumer_id: str, most: int) -> list[HeldLease]:
        lease_for = self._settings.lease_ms / 1000
        left = held_leases(client, self._settings.topic, consumer_id, lease_for=lease_for) if self._returned else []
        self._returned = False
        room = most - len(left)
        if room <= 0:
            return left
        return left + take(client, self._settings.topic, consumer_id, limit=room, lease_for=lease_for)

    def _found_again(self, client: Client, end: Offset) -> list[HeldLease]:
        """What the batch before this offset still holds. A new lease that a node adds ends later, and is released."""
        consumer_id = consumer_of(end, end["batch"] - 1)
        lease_ms = max(self._settings.lease_ms, end["until_ms"] - client.clock().now_ms + 1000)
        found = held_leases(client, self._settings.topic, consumer_id, lease_for=lease_ms / 1000)
        added = [one for one in found if one.at_ms > end["until_ms"]]
        if added:
            client.release_leases(self._settings.topic, consumer_id, added, after=0)
        return [one for one in found if one.at_ms <= end["until_ms"]]

    def _row(self, one: HeldLease, consumer_id: str) -> Row:
        binary = one.body_b64 is not None
        row = (
            one.id,
            one.at_ms,
            one.created_for_ms,
            "processing",
            one.producer_group,
            consumer_id,
            one.version,
            one.attempts,
            None if binary else bytes(one.body).decode(),
        )
        return (*row, b64encode(one.body_b64 or b"").decode() if binary else None) if self._settings.body_b64 else row


def consumer_of(offset: Mapping[str, Any], batch: int) -> str:
    """The batch's own consumer id."""
    return f"spark-{offset['query']}-{batch}"
