"""`format("meantime.topic")`: a topic as a table of the future, as a place to write to, and as a stream of what is due.

Reading goes by ranges of buckets where PostgreSQL can be reached, and shows every message; over the API alone it shows the
messages of the producer group, in one task.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import datasource

from meantime.errors import Invalid
from meantime.pipelines.spark.broker import client_of
from meantime.pipelines.spark.causes import cause_first
from meantime.pipelines.spark.options import TopicOptions, topic_options
from meantime.pipelines.topics.rows import check_columns
from meantime.topics.holders import consumer_of
from meantime.topics.model import Position
from meantime.topics.rules import status

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from meantime.pipelines.topics.stream import TopicStreamReader
    from meantime.pipelines.topics.writer import TopicStreamWriter, TopicWriter

COLUMNS = (
    "id string, at_ms bigint, created_for_ms bigint, status string, producer_group string, lock_consumer_id string, "
    "version int, attempts int, body string"
)
B64 = ", body_b64 string"
PAGE = 1000


@cause_first
class TopicSource(datasource.DataSource):
    """The data source that Spark loads. `defaults` is what `register` found on the driver."""

    defaults: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = topic_options(options, self.defaults)

    @classmethod
    def name(cls) -> str:
        return "meantime.topic"

    def schema(self) -> str:
        """Fails for a topic that does not exist, before anything is planned."""
        with client_of(self._settings.broker) as client:
            client.topic(self._settings.topic)
        return COLUMNS + B64 if self._settings.body_b64 else COLUMNS

    def reader(self, schema: "StructType") -> "TopicReader":
        return TopicReader(self._settings)

    def streamReader(self, schema: "StructType") -> "TopicStreamReader":  # noqa: N802
        from meantime.pipelines.topics.stream import TopicStreamReader

        return TopicStreamReader(self._settings)

    def writer(self, schema: "StructType", overwrite: bool) -> "TopicWriter":
        from meantime.pipelines.topics.writer import TopicWriter

        if overwrite:
            raise Invalid("mode 'overwrite' would delete messages: use mode 'append'", option="mode")
        check_columns(schema, stream=False)
        return TopicWriter(self._settings)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "TopicStreamWriter":  # noqa: N802
        from meantime.pipelines.topics.writer import TopicStreamWriter

        check_columns(schema, stream=True)
        return TopicStreamWriter(self._settings)


class BucketsPartition(datasource.InputPartition):
    """A range of buckets of a topic in PostgreSQL; without one, everything that the API shows."""

    def __init__(self, topic_id: int, buckets: tuple[int, int] | None, now_ms: int) -> None:
        self.topic_id = topic_id
        self.buckets = buckets
        self.now_ms = now_ms


@cause_first
class TopicReader(datasource.DataSourceReader):
    def __init__(self, settings: TopicOptions) -> None:
        self._settings = settings

    def partitions(self) -> list[BucketsPartition]:
        """All tasks show the status at the same instant."""
        settings = self._settings
        now_ms = settings.now_ms if settings.now_ms is not None else self._cluster_now_ms()
        if settings.postgres is None:
            return [BucketsPartition(0, None, now_ms)]
        from meantime.pipelines.topics.postgres import bucket_ranges

        topic_id, ranges = bucket_ranges(settings.postgres, settings.topic, settings.parallelism)
        return [BucketsPartition(topic_id, buckets, now_ms) for buckets in ranges]

    def _cluster_now_ms(self) -> int:
        with client_of(self._settings.broker) as client:
            return client.clock().now_ms

    def read(self, partition: datasource.InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, BucketsPartition)
        rows = self._over_api() if partition.buckets is None else self._from_postgres(partition)
        for position, is_json, body in rows:
            text = body.decode() if is_json else None
            row = (
                position.id,
                position.at_ms,
                position.created_for_ms,
                status(position, partition.now_ms),
                position.producer_group,
                consumer_of(position.lock_consumer_id) if position.lock_consumer_id else None,
                position.version,
                position.attempts,
                text,
            )
            yield (*row, None if is_json else b64encode(body).decode()) if self._settings.body_b64 else row

    def _from_postgres(self, partition: BucketsPartition) -> Iterator[tuple[Position, bool, bytes]]:
        from meantime.pipelines.topics.postgres import scan

        assert self._settings.postgres
        assert partition.buckets
        for *fields, is_json, body in scan(self._settings.postgres, partition.topic_id, partition.buckets):
            yield Position(*fields), is_json, bytes(body)

    def _over_api(self) -> Iterator[tuple[Position, bool, bytes]]:
        from meantime.pipelines.topics.http import owned

        return owned(self._settings)
