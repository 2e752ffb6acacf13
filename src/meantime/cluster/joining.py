"""Being part of a cluster, from joining to leaving."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from meantime.cluster.asking import open_asking
from meantime.cluster.clock import LocalClock
from meantime.cluster.options import ClusterOptions
from meantime.cluster.peers import open_peers
from meantime.cluster.storage import StorageWatch
from meantime.cluster.view import ClusterView
from meantime.coordination.membership import Member, open_members
from meantime.coordination.session import Session
from meantime.tasks import running


@asynccontextmanager
async def open_cluster(
    me: Member,
    session: Session,
    clock: LocalClock,
    database_ok: Callable[[], Awaitable[bool]],
    options: ClusterOptions | None = None,
) -> AsyncIterator[ClusterView]:
    """Join as `me`. Does not wait for anything: `health` says `starting` until the node has joined and has compared its
    clock with every node that it knows. At the end the node leaves at once; call `stop` on the view before that, when the
    node begins to stop."""
    options = options or ClusterOptions()
    async with AsyncExitStack() as stack:
        open = stack.enter_async_context
        asking = await open(open_asking(options))
        members = await open(open_members(session))
        peers = await open(open_peers(asking, options.ask_every))
        storage = StorageWatch(database_ok)
        view = ClusterView(me, session, clock, options, members=members, peers=peers, storage=storage)
        await open(running(storage.run(), name="storage watch"))
        await open(running(view.run(), name="cluster view"))
        yield view
