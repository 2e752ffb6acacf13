"""Where an application begins with an event type that it has never worked on.

Its queues are made together, each with its first position, or none of them is: so nobody who dies in between, and nobody who
comes second, begins elsewhere. An application that has a queue of the event type is not new to it. Its positions stay, and
the queue of a partition that was added begins at the beginning of that partition.
"""

from collections.abc import Sequence

import structlog

from meantime.clock import rfc3339
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.model import Cursor, Partition
from meantime.workers.app import NamedStart
from meantime.workers.model import QueueRecord
from meantime.workers.rules import last_of
from meantime.workers.store import AppStore

log = structlog.get_logger(__name__)

HINT = 'this application is new: all that is stored is processed; @app.job(..., start="end") begins with what comes'

FirstStart = NamedStart | int | None
"""An instant is Unix milliseconds; None is the beginning, because nobody has said otherwise."""


async def start_first(
    client: AsyncClient, store: AppStore, event_type: str, start: FirstStart, partitions: Sequence[Partition]
) -> bool:
    """Make the queues of all partitions, and say where they begin and how many messages that is; False when another worker
    has made them."""
    records, messages = await _positions(client, event_type, start, partitions)
    if not await store.create_together(records):
        return False
    loud = start is None and messages > 0
    (log.warning if loud else log.info)(
        "first_start",
        event_type=event_type,
        start=rfc3339(start) if isinstance(start, int) else start or "begin",
        queues=len(records),
        messages=messages,
        **({"hint": HINT} if loud else {}),
    )
    return True


async def _positions(
    client: AsyncClient, event_type: str, start: FirstStart, partitions: Sequence[Partition]
) -> tuple[list[QueueRecord], int]:
    """The first records of the queues, and how many messages there are to do."""
    names = [partition.partition for partition in partitions]
    if start == "end":
        cursors = [partition.newest_available_offset for partition in partitions]
        return [_record(event_type, name, cursor=cursor) for name, cursor in zip(names, cursors, strict=True)], 0
    if not isinstance(start, int):
        behind = await client.lag(event_type, [Cursor(name, "BEGIN") for name in names])
        return [_record(event_type, name) for name in names], _messages(behind)
    if start > client.now() * 1000:  # what comes until then is skipped message by message
        return [_record(event_type, name, last=last_of(start)) for name in names], 0
    found = await client.partitions(event_type, written_from=start / 1000)
    return [_record(event_type, one.partition, cursor=one.start_after or "") for one in found], _messages(found)


def _record(event_type: str, partition: str, *, cursor: str = "", last: str = "") -> QueueRecord:
    return QueueRecord(event_type=event_type, partition=partition, cursor=cursor, last=last)


def _messages(partitions: Sequence[Partition]) -> int:
    return sum(partition.unconsumed_events or 0 for partition in partitions)
