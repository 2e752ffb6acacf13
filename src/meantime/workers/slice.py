"""What a node needs of this slice: a view of the applications, on the session that it has anyway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meantime.coordination.session import Session
from meantime.workers.inspection import Apps
from meantime.workers.layout import NAMESPACE, namespace_path


@asynccontextmanager
async def open_apps(session: Session, namespace: str = NAMESPACE) -> AsyncIterator[Apps]:
    """`namespace` is a name below the session's root, or a path of its own such as `/mozilla/services/qdo`."""
    yield Apps(session, namespace_path(session.root, namespace))
