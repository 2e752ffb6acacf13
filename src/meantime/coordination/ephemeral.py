"""An ephemeral node under a fixed name, so that all can see that its owner is there.

A process that was killed leaves its node behind until its session ends, and its successor has the same name. The successor
waits for that end: deleting the node of a session that may still act would let two processes be the same one.
"""

import structlog

from meantime.coordination.session import Session, Watch
from meantime.coordination.zk.znodes import Znode
from meantime.errors import Conflict

log = structlog.get_logger(__name__)


async def claim_ephemeral(session: Session, path: str, data: bytes, watch: Watch) -> Znode | None:
    """The ephemeral node `path` of this session, created with `data` if it is missing; None while another session
    has it, and then `watch` tells when to try again."""
    while True:
        node = await session.exists(path)
        if node is None:
            node = await _create(session, path, data)
        if node is not None and node.owner == session.id:
            return node
        if node is not None and await _still_held(session, path, watch):
            return None


async def _create(session: Session, path: str, data: bytes) -> Znode | None:
    try:
        await session.create(path, data, ephemeral=True)
    except Conflict:
        log.debug("ephemeral_node_taken_in_between", path=path)
    return await session.exists(path)


async def _still_held(session: Session, path: str, watch: Watch) -> bool:
    node = await session.exists(path, watch)
    return node is not None and node.owner != session.id
