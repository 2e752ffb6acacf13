"""`<root>/timelines` and what is in it: created once by whoever comes first, under the lock, and read by everybody."""

import structlog

from meantime.coordination.session import Session
from meantime.coordination.ticket_queue import holding
from meantime.coordination.zk.znodes import Znode
from meantime.errors import Conflict

log = structlog.get_logger(__name__)

MOST_DIGITS = 19


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
    return int(text) if len(text) < MOST_DIGITS and text.isdigit() else -1


def current_version(node: Znode) -> int:
    """The version in `timelines/version`. Where an outsider has written something else, it is how often the node was
    written, which is more than any version before: each has written it once."""
    version = version_of(node.data)
    if version >= 0:
        return version
    log.error("timelines_version_unreadable", data=node.text[:80], counts_as=node.version)
    return node.version
