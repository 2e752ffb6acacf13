"""`<root>/timelines` and what is in it: created once by whoever comes first, under the lock, and read by everybody."""

import asyncio
import logging

from meantime.coordination.line import holding
from meantime.coordination.session import Session, Watch
from meantime.errors import Conflict, NotFound

log = logging.getLogger(__name__)


async def ensure_structure(session: Session) -> None:
    if await _complete(session):
        return
    async with holding(session, session.layout.timelines_lock):
        await session.ensure(session.layout.locked_event_types)
        await session.ensure(session.layout.acknowledgements)
        # The version comes last: where it is, everything is.
        try:
            await session.create(session.layout.version, b"0")
            log.info("created the timelines structure below %s", session.layout.timelines)
        except Conflict:
            log.debug("another node has created the timelines structure")


async def _complete(session: Session) -> bool:
    parts = (session.layout.version, session.layout.locked_event_types, session.layout.acknowledgements)
    return all(await asyncio.gather(*map(session.exists, parts)))


async def read_acknowledgements(session: Session, watch: Watch | None = None) -> dict[str, int]:
    """The version that each registered node has reacted to; `watch` tells when to look again."""
    folder = session.layout.acknowledgements
    names = await session.children(folder, watch)
    versions = await asyncio.gather(*(_read_number(session, f"{folder}/{name}", watch) for name in names))
    return {name: version for name, version in zip(names, versions, strict=True) if version is not None}


async def _read_number(session: Session, path: str, watch: Watch | None) -> int | None:
    """None when the node has just gone; what is not a number counts as having reacted to nothing."""
    try:
        text = (await session.get(path, watch)).text
    except NotFound:
        return None
    return int(text) if text.strip().isdecimal() else -1
