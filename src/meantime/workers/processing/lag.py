"""How far the queues of a worker are behind, for its metrics."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

import structlog

from meantime.errors import MeantimeError
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.model import Cursor
from meantime.workers.balancing.claims import Claim
from meantime.workers.meters import LAG

log = structlog.get_logger(__name__)

LOOK_EVERY = 5.0


async def follow_lag(client: AsyncClient, claims: Callable[[], Sequence[Claim]]) -> None:
    while True:
        try:
            await _look(client, claims())
        except MeantimeError as error:
            log.debug("lag_unknown", detail=error.detail)
        await asyncio.sleep(LOOK_EVERY)


async def _look(client: AsyncClient, claims: Sequence[Claim]) -> None:
    by_event_type: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_event_type[claim.source.event_type].append(claim)
    LAG.clear()
    for event_type, group in by_event_type.items():
        cursors = [Cursor(claim.source.partition, claim.record.cursor or "BEGIN") for claim in group]
        behind = {place.partition: place.unconsumed_events for place in await client.lag(event_type, cursors)}
        for claim in group:
            LAG.labels(claim.queue).set(behind.get(claim.source.partition) or 0)
