"""`GET /apps/{app}/changes`: queues as they go from worker to worker."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from meantime.api.call import HttpCall
from meantime.api.streaming import NDJSON, LineStream
from meantime.clock import Clock
from meantime.workers.inspection import Apps
from meantime.workers.ownership import OwnerChange, follow_owners

KEEP_ALIVE_EVERY = 4.0


class OwnerChangeView(msgspec.Struct, frozen=True):
    """`owner` has the queue now, `former` had it before; null is nobody."""

    at_ms: int
    queue: str
    event_type: str
    partition: str
    owner: str | None
    former: str | None


async def follow(call: HttpCall[None, None]) -> LineStream:
    """Who has which queue, as it changes

    `application/x-ndjson`: first a line for each queue with its owner, then one whenever a queue gets another. An empty line
    keeps the connection alive.
    """
    services, app = call.services, call.names["app"]
    await services.apps.app(app)
    return LineStream(_Changes(services.apps, app, services.cluster.clock), media_type=NDJSON)


class _Changes:
    def __init__(self, apps: Apps, app: str, clock: Clock) -> None:
        self._apps = apps
        self._app = app
        self._clock = clock

    async def chunks(self) -> AsyncIterator[bytes]:
        async for changes in follow_owners(self._apps, self._app, self._clock, KEEP_ALIVE_EVERY):
            yield b"".join(map(_line, changes)) or b"\n"

    async def cut(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        """Nothing is kept for it."""


def _line(change: OwnerChange) -> bytes:
    view = OwnerChangeView(change.at_ms, change.queue, change.event_type, change.partition, change.owner, change.former)
    return msgspec.json.encode(view) + b"\n"
