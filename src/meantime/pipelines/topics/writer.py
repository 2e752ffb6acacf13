"""A frame written to a topic, with an answer: how many messages were created, existed already, were refused.

    task:   check every row ──► few rows: hand them to the driver ──► commit: written when every task was fine
                            └─► many rows: write them, a chunk at a time

Nothing is written while a row of the same task may still be refused, and nothing at all of a frame whose tasks are all
small. Of a large frame other tasks may have been written when one fails: with natural ids the same write again completes it.
With the option `rejects` refused rows go to that file instead, and the others are written.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import datasource

from meantime.errors import Invalid
from meantime.pipelines.spark.causes import cause_first, cause_of
from meantime.pipelines.spark.options import TopicOptions
from meantime.pipelines.topics.model import Reject, Tally
from meantime.pipelines.topics.rows import RowContext, checked_rows
from meantime.pipelines.topics.sink import open_sink, topic_and_now, write_all
from meantime.topics.model import NewMessage
from meantime.topics.rules import check_producer

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

FEW = 10_000
FEW_BYTES = 8 << 20
MOST_REJECTS = 100_000


def write_topic(frame: "DataFrame", topic: str, **options: str) -> Tally:
    """Write a frame with the columns `id?, at_ms | after_ms, body`; repeat it as often as you like.

    >>> write_topic(frame, "reminders", rejects="refused.ndjson")
    Tally(created=1000000, exists=0, rejected=0)
    """
    with tempfile.TemporaryDirectory(prefix="meantime-") as folder:
        report = Path(folder) / "report.json"
        writer = frame.write.format("meantime.topic").mode("append").option("topic", topic).option("report", str(report))
        try:
            writer.options(**options).save()
        except (PySparkException, Py4JError) as error:
            raise cause_of(str(error)) or error from None
        return msgspec.json.decode(report.read_bytes(), type=Tally)


class Written(datasource.WriterCommitMessage):
    """What a task did, and the rows that it left to the driver."""

    def __init__(self, tally: Tally, kept: list[NewMessage], rejects: list[Reject]) -> None:
        self.tally = tally
        self.kept = kept
        self.rejects = rejects


class Writing:
    """What batches and streams have in common. Made on the driver, sent to tasks."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options
        self._job = uuid4().hex
        self._topic, self._now_ms = topic_and_now(options.broker, options.topic)
        check_producer(self._topic.name, options.broker.producer_group)

    def write_task(self, batches: "Iterator[RecordBatch]") -> Written:
        running = TaskContext.get()
        task = running.partitionId() if running else 0
        context = RowContext(self._topic, self._options.broker.producer_group, self._now_ms, self._job, task)
        sound: list[NewMessage] = []
        rejects: list[Reject] = []
        for result in checked_rows(batches, context):
            if isinstance(result, NewMessage):
                sound.append(result)
            else:
                self._refuse(result, rejects)
        if len(sound) <= FEW and sum(len(message.body) for message in sound) <= FEW_BYTES:
            return Written(Tally(rejected=len(rejects)), sound, rejects)
        with open_sink(self._options, self._now_ms) as sink:
            tally = write_all(sink, sound) + Tally(rejected=len(rejects))
            return Written(tally, [], rejects + sink.refused)

    def _refuse(self, reject: Reject, rejects: list[Reject]) -> None:
        if self._options.rejects is None:
            raise Invalid(
                f"{reject.place}: {reject.error}; nothing of this task was written. "
                "With the option 'rejects' (--rejects) such rows go to a file and the others are written"
            )
        if len(rejects) == MOST_REJECTS:
            raise Invalid(
                f"more than {MOST_REJECTS} rows of one task are refused; the last one, {reject.place}: {reject.error}"
            )
        rejects.append(reject)

    def finish(self, messages: Sequence[Written | None]) -> None:
        done = [message for message in messages if message is not None]
        total = sum((message.tally for message in done), Tally())
        kept = [row for message in done for row in message.kept]
        rejects = [reject for message in done for reject in message.rejects]
        if kept:
            with open_sink(self._options, self._now_ms) as sink:
                total += write_all(sink, kept)
                rejects += sink.refused
        self._report(total, rejects)

    def _report(self, total: Tally, rejects: Sequence[Reject]) -> None:
        if self._options.rejects:
            lines = b"".join(msgspec.json.encode(reject) + b"\n" for reject in rejects)
            Path(self._options.rejects).write_bytes(lines)
        if self._options.report:
            Path(self._options.report).write_bytes(msgspec.json.encode(total))
            return
        counts = f"created {total.created:,}, existed {total.exists:,}, rejected {total.rejected:,}"
        print(f"meantime.topic {self._options.topic}: {counts}", file=sys.stderr, flush=True)


@cause_first
class TopicWriter(datasource.DataSourceArrowWriter):
    def __init__(self, options: TopicOptions) -> None:
        self._writing = Writing(options)

    def write(self, iterator: "Iterator[RecordBatch]") -> Written:
        return self._writing.write_task(iterator)

    def commit(self, messages: list[Any]) -> None:
        self._writing.finish(messages)


@cause_first
class TopicStreamWriter(datasource.DataSourceStreamArrowWriter):
    """A batch that is written again has the same ids and makes no second message."""

    def __init__(self, options: TopicOptions) -> None:
        self._writing = Writing(options)

    def write(self, iterator: "Iterator[RecordBatch]") -> Written:
        return self._writing.write_task(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._writing.finish(messages)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """What was written stays: the batch comes again with the same ids."""
