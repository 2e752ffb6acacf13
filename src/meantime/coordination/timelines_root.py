"""`<root>/timelines` and what is in it: created once by whoever comes first, under the lock, and read by everybody."""

import structlog

from meantime.coordination.session import Session
from meantime.coordination.ticket_queue import holding
from meantime.errors import Conflict

log = structlog.get_logger(__name__)


async def ensure_timelines(session: Session) -> None:
    if await _complete(session):
        return
    async with holding(session, session.layout.timelines_lock):
        await session.ensure(session.layout.locked_event_types)
        await session.ensure(session.layout.acknowledgements)
        # The version comes last: where it is, everything is.
        try:
            await session.create(session.layout.version, b"0")
            log.info("timelines_root_created", path=session.layout.timelines)
        except Conflict:
            log.debug("timelines_root_created_by_another_node")


async def _complete(session: Session) -> bool:
    layout = session.layout
    parts = [session.exists(part) for part in (layout.version, layout.locked_event_types, layout.acknowledgements)]
    return all([await part for part in parts])


def version_of(data: bytes) -> int:
    """What is not a number counts as having reacted to nothing."""
    text = data.strip()
    return int(text) if text.isdigit() else -1
