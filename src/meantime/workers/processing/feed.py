"""Messages for queues, over HTTP from any node.

Queues of one event type that are taken together share one stream. If one of them does not keep up it gets a stream of its
own, at the speed of its job, so that no queue waits for another. A stream that breaks is opened again at another node, where
the last line ended. A cursor that has expired is moved to the oldest message there is, and an error is logged.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog

from meantime.errors import CursorsUnavailable, MeantimeError, NotFound, UnexpectedAnswer
from meantime.sdk.calls.call import Call, body, nothing, path
from meantime.sdk.http.transport import AsyncSender, StreamBroken
from meantime.sdk.reading import LineSplitter
from meantime.tasks import TaskSet
from meantime.workers.app import Message
from meantime.workers.model import QueueSource
from meantime.workers.processing.inbox import Inbox
from meantime.workers.rules import cursors_up_to

log = structlog.get_logger(__name__)

KEEP_ALIVE_EVERY = 5
MOST_IN_A_LINE = 500
SILENCE_FOR = 15.0
PATIENCE = 0.2
"""Seconds, in all, that the others on a stream wait for one queue."""
AGAIN_AFTER = 1.0
BEGIN = "BEGIN"


class LineCursor(msgspec.Struct, frozen=True):
    partition: str
    offset: str


class StreamLine(msgspec.Struct, frozen=True):
    cursor: LineCursor
    events: list[Any] = []
    written_at_ms: list[int] = []


_line = msgspec.json.Decoder(StreamLine)


class QueueFeeds:
    """All streams of a worker."""

    def __init__(self, sender: AsyncSender, may_work: Callable[[], bool]) -> None:
        self.sender = sender
        self.may_work = may_work
        """Whether jobs are started at all; while they are not, an inbox may be full without its job being slow."""
        self._tasks = TaskSet()

    def open(self, inboxes: Iterable[tuple[QueueSource, Inbox]]) -> None:
        """Fill these inboxes until they are closed."""
        by_event_type: dict[str, dict[str, Inbox]] = {}
        for source, inbox in inboxes:
            by_event_type.setdefault(source.event_type, {})[source.partition] = inbox
        for event_type, group in by_event_type.items():
            self._start(QueueFeed(self, event_type, group))

    def move_out(self, event_type: str, partition: str, inbox: Inbox) -> None:
        """Give one queue a stream of its own."""
        log.debug("stream_of_its_own", event_type=event_type, partition=partition)
        self._start(QueueFeed(self, event_type, {partition: inbox}))

    async def close(self) -> None:
        await self._tasks.end()

    def _start(self, feed: "QueueFeed") -> None:
        self._tasks.start(feed.run(), name=f"feed {feed.event_type}")


class QueueFeed:
    """One stream; ends when none of its inboxes is open any more."""

    def __init__(self, feeds: QueueFeeds, event_type: str, inboxes: dict[str, Inbox]) -> None:
        self.event_type = event_type
        self._feeds = feeds
        self._inboxes = inboxes
        self._patience = dict.fromkeys(inboxes, PATIENCE)

    async def run(self) -> None:
        while self._open():
            pause = 0.05
            try:
                await self._read()
            except StreamBroken:
                pass
            except CursorsUnavailable as error:
                pause = self._restart(error)
            except NotFound:
                log.warning("event_type_unknown", event_type=self.event_type, hint="waiting for it")
                pause = AGAIN_AFTER
            except MeantimeError as error:
                log.warning("stream_refused", event_type=self.event_type, detail=error.detail)
                pause = AGAIN_AFTER
            except Exception:
                log.exception("stream_failed", event_type=self.event_type)
                pause = AGAIN_AFTER
            await asyncio.sleep(pause)

    def _open(self) -> bool:
        self._inboxes = {partition: inbox for partition, inbox in self._inboxes.items() if not inbox.closed}
        return bool(self._inboxes)

    async def _read(self) -> None:
        lines = LineSplitter()
        async with self._feeds.sender.stream(self._call(), silence_for=SILENCE_FOR) as stream:
            async for chunk in stream.chunks:
                for line in lines.feed(chunk):
                    await self._deliver(line)
                if not self._open():
                    return

    def _call(self) -> Call[None]:
        query = {
            "batch_limit": MOST_IN_A_LINE,
            "batch_flush_timeout": KEEP_ALIVE_EVERY,
            "written_at": "true",
            "eager": "true",
        }
        cursors = [{"partition": partition, "offset": inbox.position or BEGIN} for partition, inbox in self._inboxes.items()]
        target = path("event-types", self.event_type, "events", query=query)
        return Call("GET", target, nothing, headers={"X-Nakadi-Cursors": body(cursors).decode()})

    async def _deliver(self, text: bytes) -> None:
        line = _read_line(text)
        inbox = self._inboxes.get(line.cursor.partition)
        if inbox is None or not line.events:
            return
        if inbox.closed:
            del self._inboxes[line.cursor.partition]
            return
        inbox.put(self._messages(line), len(text))
        if inbox.full and not await self._room(line.cursor.partition, inbox):
            del self._inboxes[line.cursor.partition]
            self._feeds.move_out(self.event_type, line.cursor.partition, inbox)

    async def _room(self, partition: str, inbox: Inbox) -> bool:
        """Wait for room; False when the others have waited for this queue long enough."""
        if len(self._inboxes) == 1:
            return await inbox.room(None)
        began = time.monotonic()
        while not await inbox.room(max(0.0, self._patience[partition])):
            if self._feeds.may_work():
                return False
            began = time.monotonic()
            await asyncio.sleep(PATIENCE)
        self._patience[partition] -= time.monotonic() - began
        return True

    def _messages(self, line: StreamLine) -> list[Message]:
        partition, event_type, count = line.cursor.partition, self.event_type, len(line.events)
        cursors = cursors_up_to(line.cursor.offset, count)
        times = line.written_at_ms or [0] * count
        return [
            Message(event, event_type, partition, cursor, max(0, written_at_ms))
            for event, cursor, written_at_ms in zip(line.events, cursors, times, strict=True)
        ]

    def _restart(self, error: CursorsUnavailable) -> float:
        """Go on where it is possible; seconds to wait before."""
        pause = 0.0
        for refused in error.extras.get("cursors", ()):
            partition = str(refused.get("partition"))
            inbox = self._inboxes.get(partition)
            if inbox is None:
                continue
            going_on_after = refused.get("restart_from")
            log.error(
                "position_not_available",
                event_type=self.event_type,
                partition=partition,
                cursor=inbox.position,
                going_on_after=going_on_after,
                detail=refused.get("detail"),
            )
            if going_on_after:
                inbox.position = str(going_on_after)
            elif len(self._inboxes) == 1:
                pause = AGAIN_AFTER
            else:
                self._feeds.move_out(self.event_type, partition, self._inboxes.pop(partition))
        return pause


def _read_line(text: bytes) -> StreamLine:
    try:
        line = _line.decode(text)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(f"cannot read a line of the stream ({error}): {text[:200]!r}") from error
    if line.written_at_ms and len(line.written_at_ms) != len(line.events):
        raise UnexpectedAnswer(f"a line of {len(line.events)} events with {len(line.written_at_ms)} instants")
    return line
