"""Workers without jobs for the benchmark of re-balancing: a process full of them, each with a session of its own."""

import asyncio
import sys
from collections.abc import Callable, Sequence

from meantime import logs
from meantime.coordination.session import SessionOptions, open_session
from meantime.workers.balancing.balancer import Work
from meantime.workers.balancing.claims import QueueClaim
from meantime.workers.balancing.membership import Membership, MembershipOptions
from meantime.workers.layout import app_layout, namespace_path
from meantime.workers.store import AppStore


class Held:
    """A queue that is held and not worked on."""

    def __init__(self, rested: Callable[[], None]) -> None:
        self.done = False
        self._rested = rested

    def stop(self) -> None:
        if not self.done:
            self.done = True
            self._rested()

    def wake(self) -> None:
        """Nothing is going on."""

    def abandon(self) -> None:
        """Nothing is going on."""


def begin(claims: Sequence[QueueClaim], rested: Callable[[], None]) -> list[Work]:
    return [Held(rested) for _ in claims]


class Everything:
    async def eligible(self, queues: list[str]) -> list[str]:
        return queues

    def of(self, queue: str) -> None:
        """Records say it themselves."""


async def one(zookeeper: str, app: str, stop: asyncio.Event) -> None:
    async with open_session(SessionOptions(zookeeper, timeout=10.0)) as session:
        store = AppStore(session, app_layout(namespace_path(session.root), app))
        await Membership(store, MembershipOptions(10.0, 1.0), Everything(), begin).run(stop)


async def main(zookeeper: str, app: str, count: int) -> None:
    stop = asyncio.Event()
    crew = [asyncio.create_task(one(zookeeper, app, stop)) for _ in range(count)]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    stop.set()
    await asyncio.gather(*crew)


if __name__ == "__main__":
    logs.configure("warning")
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
