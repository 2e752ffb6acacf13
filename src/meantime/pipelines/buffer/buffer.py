"""A time buffer: everything that enters one end leaves the other a fixed time later.

    Kafka topic or event type ──Spark──► topic `buffer.<from>.<to>` ──leases──► Kafka topic or event type

Both halves resume where they stopped, however they were stopped. They may run together or as processes of their own.

Together they run in two threads. Packages whose modules import each other cannot be imported by two threads at once, so all
that the outbound half needs is imported here, before there is a second thread; only the inbound half imports PySpark.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from meantime.errors import Invalid, NotFound
from meantime.pipelines.buffer.event_type_target import EventTypeTarget
from meantime.pipelines.buffer.inbound import GROUP, Inbound, start_inbound
from meantime.pipelines.buffer.kafka_target import KafkaTarget, has_topic
from meantime.pipelines.buffer.model import Endpoint, buffer_name
from meantime.pipelines.buffer.outbound import Outbound, Target, run_until_stopped
from meantime.pipelines.buffer.refused import RefusedFile
from meantime.pipelines.event_types import postgres_storages  # noqa: F401 - both halves may need it
from meantime.pipelines.event_types.layout import default_storage
from meantime.pipelines.spark.broker import Broker, client_of
from meantime.pipelines.spark.meters import BufferLateness
from meantime.pipelines.spark.places import Place, address_of, lock_file
from meantime.sdk.client import Client
from meantime.stack.file_lock import file_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YEAR = 365 * 86_400.0
MAX_BODY_BYTES = 8 << 20
TRIES = 8
LASTING_FOR = 60.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BufferOptions:
    broker: Broker
    source: Endpoint
    target: Endpoint
    delay: float
    checkpoint: Place
    postgres: str | None = None
    starting: str = "begin"
    remember_for: float = 86_400.0
    """How long ids of messages that went out are kept: a batch must be replayed within it."""
    once: bool = False

    @property
    def topic(self) -> str:
        return buffer_name(self.source, self.target)


def check(client: Client, options: BufferOptions) -> None:
    """Checks the delay and both ends, before anything is made."""
    if options.delay < 0 or options.delay > 10 * YEAR:
        raise Invalid("--delay is from 0 to ten years", option="delay")
    if options.source == options.target:
        raise Invalid("--from and --to are the same: everything would go round for ever", option="to")
    for end, option in ((options.source, "--from"), (options.target, "--to")):
        _check_end(client, end, option, options.postgres)


def prepare(client: Client, options: BufferOptions) -> None:
    """Make the topic, or find it as it was made."""
    client.create_topic(
        options.topic,
        max_future=max(YEAR, 2 * options.delay),
        max_body_bytes=MAX_BODY_BYTES,
        dedupe=options.remember_for,
    )


def _check_end(client: Client, end: Endpoint, option: str, postgres: str | None) -> None:
    if end.is_event_type:
        try:
            client.event_type(end.name)
        except NotFound as error:
            raise NotFound(f"{option}: {error.detail}") from error
        return
    storage = default_storage(client, postgres)
    if not has_topic(storage, end.name):
        raise NotFound(
            f"{option}: storage {storage.id!r} has no topic {end.name!r}: make it first, or say event-type:<name>"
        )


def target_of(client: Client, options: BufferOptions, refused: RefusedFile) -> Target:
    if options.target.is_event_type:
        return EventTypeTarget(client, options.broker, options.target.name, options.checkpoint / "out", refused)
    return KafkaTarget(default_storage(client, options.postgres), options.target.name, options.topic)


def run_out(options: BufferOptions, stopping: Callable[[], bool], lateness: BufferLateness) -> None:
    broker = replace(options.broker, producer_group=GROUP)
    busy = f"another process runs the outbound half of {options.topic!r}"
    with file_lock(lock_file(options.checkpoint, "out.lock"), busy=busy), client_of(broker) as client:
        refused = RefusedFile(options.checkpoint / "out" / "refused.ndjson", options.topic)
        outbound = Outbound(client, options.topic, "buffer-out", target_of(client, options, refused), refused, lateness)
        run_until_stopped(outbound, stopping, once=options.once)


def run_in(spark: "SparkSession", options: BufferOptions, stopping: Callable[[], bool]) -> None:
    with client_of(options.broker) as client:
        storage = default_storage(client, options.postgres)
    inbound = Inbound(
        options.broker,
        storage,
        options.source,
        options.topic,
        round(options.delay * 1000),
        address_of(options.checkpoint / "in"),
        options.starting,
        postgres=options.postgres,
    )
    busy = f"another process runs the inbound half of {options.topic!r}"
    with file_lock(lock_file(options.checkpoint, "in.lock"), busy=busy):
        failures = 0
        while not stopping() and not _run_query(spark, inbound, options.once, stopping, failures):
            failures += 1
            time.sleep(failures)


def _run_query(spark: "SparkSession", inbound: Inbound, once: bool, stopping: Callable[[], bool], failures: int) -> bool:
    """Whether it has ended. A query that failed is started again from its checkpoint, unless it keeps failing early."""
    from pyspark.errors import StreamingQueryException

    began = time.monotonic()
    query = start_inbound(spark, inbound, once=once)
    try:
        while not stopping() and not query.awaitTermination(1):
            pass
    except StreamingQueryException as error:
        if failures >= TRIES and time.monotonic() - began < LASTING_FOR:
            raise
        log.warning("buffer_inbound_interrupted", topic=inbound.topic, error=str(error).split("\n", maxsplit=1)[0])
        return False
    finally:
        query.stop()
    return True


def run_both(
    starting_spark: "Callable[[], AbstractContextManager[SparkSession]]",
    options: BufferOptions,
    stopping: Callable[[], bool],
    lateness: BufferLateness,
) -> None:
    """The outbound half does not wait for Spark: after a crash, what is due leaves while Spark is still starting.

    If one half fails the other stops too. With `once` all goes in first, then out."""
    if options.once:
        with starting_spark() as spark:
            run_in(spark, options, stopping)
        run_out(options, stopping, lateness)
        return
    with _outbound_thread(options, stopping, lateness) as over, starting_spark() as spark:
        run_in(spark, options, lambda: stopping() or over())


@contextmanager
def _outbound_thread(
    options: BufferOptions, stopping: Callable[[], bool], lateness: BufferLateness
) -> Iterator[Callable[[], bool]]:
    """The outbound half in a thread of its own. Yields whether it has ended early; its error is raised at the end."""
    failed: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            run_out(options, lambda: stopping() or ended.is_set(), lateness)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="buffer-out")
    thread.start()
    try:
        yield lambda: not thread.is_alive()
    finally:
        ended.set()
        thread.join()
    if failed:
        raise failed[0]
