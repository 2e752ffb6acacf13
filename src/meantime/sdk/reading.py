"""Following a stream of events through every interruption, without touching a socket.

An `EventsReader` remembers the cursor of each partition after every complete line, so a stream that breaks goes on where
the last line ended: nothing is skipped, nothing is delivered twice. The place of a subscription is kept by the broker
instead: what was not committed comes again. Limits given by the caller hold over all connections.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar

import msgspec

from meantime.errors import Invalid, UnexpectedAnswer
from meantime.sdk.calls.call import Call, body, nothing, path
from meantime.sdk.model import Batch, Cursor, Partition, SubscriptionBatch
from meantime.sdk.retries import Retries

B = TypeVar("B", Batch, SubscriptionBatch)

#: Seconds beyond the longest silence that was agreed on, after which a connection is taken for dead.
GRACE = 15.0

_batch = msgspec.json.Decoder(Batch)


@dataclass(slots=True)
class LineSplitter:
    """Cuts chunks of bytes into complete lines; only a line feed ends a line."""

    _rest: bytes = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line for line in lines if line.strip()]


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is cut into batches and when it ends, in events and seconds. `None` leaves it to the node."""

    batch_limit: int | None = None
    batch_flush_timeout: int | None = None
    stream_limit: int | None = None
    stream_timeout: int | None = None
    stream_keep_alive_limit: int | None = None
    max_uncommitted_events: int | None = None
    commit_timeout: int | None = None

    @property
    def endless(self) -> bool:
        return not (self.stream_limit or self.stream_timeout or self.stream_keep_alive_limit)

    @property
    def silence_for(self) -> float:
        return (self.batch_flush_timeout or 30) + GRACE


class StreamSettings(TypedDict, total=False):
    """`StreamOptions` as keyword arguments."""

    batch_limit: int | None
    batch_flush_timeout: int | None
    stream_limit: int | None
    stream_timeout: int | None
    stream_keep_alive_limit: int | None
    max_uncommitted_events: int | None
    commit_timeout: int | None


def starting_cursors(partitions: Iterable[Partition], start: str) -> list[Cursor]:
    """A cursor for every partition, at the `begin` or the `end` of what can be read."""
    if start.lower() not in ("begin", "end"):
        raise Invalid(f"begin at 'begin' or at 'end', or give one cursor per partition; {start!r} is neither")
    if start.lower() == "begin":
        return [Cursor(partition.partition, "BEGIN") for partition in partitions]
    return [Cursor(partition.partition, partition.newest_available_offset) for partition in partitions]


class ResumingReader(ABC, Generic[B]):
    """One stream over any number of connections: `call`, `opened`, `take` chunks, then `ended` or `broken`, and again."""

    def __init__(self, options: StreamOptions, retries: Retries, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.finished = False
        self._retries = retries
        self._monotonic = monotonic
        self._began = monotonic()
        self._seen = 0
        self._failures = 0
        self._lines = LineSplitter()

    @abstractmethod
    def call(self) -> Call[None]:
        """Open the stream, where the last one ended."""

    @abstractmethod
    def accept(self, batch: Batch) -> B:
        """Take note of a line and make of it what the caller gets."""

    def opened(self, headers: Mapping[str, str]) -> None:
        self._lines = LineSplitter()

    def take(self, chunk: bytes) -> Iterator[B]:
        for line in self._lines.feed(chunk):
            batch = _read(line)
            self._failures = 0
            self._seen += len(batch.events)
            accepted = self.accept(batch)
            if batch.events:
                yield accepted

    def ended(self) -> float:
        """The node ended the stream: after a limit that is the end, else it is stopping and another one goes on."""
        self.finished = not self.options.endless
        return self.broken()

    def broken(self) -> float:
        """Seconds to wait before the stream is opened again."""
        self._failures += 1
        self.finished = self.finished or self._limit_reached()
        return 0.0 if self.finished else self._retries.pause(self._failures)

    def _limit_reached(self) -> bool:
        limit, timeout = self.options.stream_limit, self.options.stream_timeout
        return bool((limit and self._seen >= limit) or (timeout and self._monotonic() - self._began >= timeout))

    def remaining(self) -> Mapping[str, object]:
        """The options as a query, less what earlier connections have used up."""
        options = msgspec.structs.asdict(self.options)
        if self.options.stream_limit:
            left = options["stream_limit"] = self.options.stream_limit - self._seen
            # A node refuses batches that are larger than what is left of the stream.
            options["batch_limit"] = min(self.options.batch_limit, left) if self.options.batch_limit else None
        if self.options.stream_timeout:
            options["stream_timeout"] = max(1, self.options.stream_timeout - int(self._monotonic() - self._began))
        return options


class EventsReader(ResumingReader[Batch]):
    """The stream of one event type, from cursors."""

    def __init__(self, event_type: str, cursors: Iterable[Cursor], options: StreamOptions, retries: Retries) -> None:
        super().__init__(options, retries)
        self.event_type = event_type
        self.cursors = {cursor.partition: cursor for cursor in cursors}

    def call(self) -> Call[None]:
        cursors = [{"partition": cursor.partition, "offset": cursor.offset} for cursor in self.cursors.values()]
        target = path("event-types", self.event_type, "events", query=self.remaining())
        return Call("GET", target, nothing, headers={"X-Nakadi-Cursors": body(cursors).decode()})

    def accept(self, batch: Batch) -> Batch:
        self.cursors[batch.cursor.partition] = batch.cursor
        return batch


class SubscriptionReader(ResumingReader[SubscriptionBatch]):
    """The stream of a subscription."""

    def __init__(self, subscription_id: str, options: StreamOptions, retries: Retries) -> None:
        super().__init__(options, retries)
        self.subscription_id = subscription_id
        self._stream_id: str | None = None

    def call(self) -> Call[None]:
        target = path("subscriptions", self.subscription_id, "events", query=self.remaining())
        return Call("GET", target, nothing, conflict_for=0.0 if self._stream_id is None else GRACE)

    def opened(self, headers: Mapping[str, str]) -> None:
        super().opened(headers)
        self._stream_id = headers.get("x-nakadi-streamid", "")

    def accept(self, batch: Batch) -> SubscriptionBatch:
        return SubscriptionBatch(
            subscription_id=self.subscription_id,
            stream_id=self._stream_id or "",
            cursor=batch.cursor,
            events=batch.events,
        )


def _read(line: bytes) -> Batch:
    try:
        return _batch.decode(line)
    except msgspec.MsgspecError as error:
        sample = line[:200].decode("utf-8", "replace")
        raise UnexpectedAnswer(f"cannot read a line of the stream ({error}): {sample!r}") from error
