"""Who has which queue of an application, as it changes: what each worker says of itself, followed in ZooKeeper.

States that come close together are seen as one: a queue that goes from one worker to another by way of nobody may be told
as one change. The last state is always told.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from meantime.clock import Clock
from meantime.errors import CorruptRecord, NotFound
from meantime.workers.inspection import Apps
from meantime.workers.model import WorkerRecord, decode


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """`former` is who had it before; None is nobody. What is told at the beginning has no former owner."""

    at_ms: int
    queue: str
    event_type: str
    partition: str
    owner: str | None
    former: str | None


async def follow_owners(apps: Apps, app: str, clock: Clock, every: float) -> AsyncIterator[list[OwnerChange]]:
    """All queues as they are, then what changes; an empty list when nothing has for `every` seconds. Ends when the
    application is forgotten."""
    directory = await apps.directory(app)
    known: dict[str, str | None] = {}
    sources: dict[str, tuple[str, str]] = {}
    while True:
        seen = directory.changes.count
        await directory.refresh()
        try:
            queues = await apps.queue_ids(app)
            sources |= {queue: await _source(apps, app, queue) for queue in queues if queue not in sources}
        except NotFound:
            return
        owners = dict.fromkeys(queues) | {
            queue: name for queue, name in _holders(directory.current).items() if queue in queues
        }
        changed = [queue for queue in owners if queue not in known or known[queue] != owners[queue]]
        now_ms = clock.now_ms()
        yield [OwnerChange(now_ms, queue, *sources[queue], owners[queue], known.get(queue)) for queue in changed]
        known = owners
        await directory.changes.beyond(seen, every)


def _holders(records: dict[str, bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for worker, data in records.items():
        try:
            queues = decode(WorkerRecord, worker, data).queues
        except CorruptRecord:
            continue
        found |= dict.fromkeys(queues, worker)
    return found


async def _source(apps: Apps, app: str, queue: str) -> tuple[str, str]:
    record = (await apps.queue_record(app, queue)).source
    return record.event_type, record.partition
