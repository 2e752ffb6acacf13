"""Workers without jobs: they take queues, hold them, and give them up, on a real ZooKeeper."""

import asyncio
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager

from zookeeper_tools import eventually, own_root

from meantime.coordination.session import open_session
from meantime.workers.balancing.membership import Membership, MembershipOptions
from meantime.workers.layout import app_layout, namespace_path
from meantime.workers.model import QueueSource
from meantime.workers.store import AppStore


class Idle:
    """A queue on which nothing is done; it comes to rest when told to, or later if it is `busy`."""

    def __init__(self, claim, rested):
        self.claim = claim
        self.busy = self.stopping = self.abandoned = False
        self.woken = 0
        self._rested = rested

    @property
    def done(self):
        return self.stopping and not self.busy

    def stop(self):
        if not self.stopping:
            self.stopping = True
            self._rested()

    def rest(self):
        self.busy = False
        self._rested()

    def wake(self):
        self.woken += 1

    def abandon(self):
        self.abandoned = True


class Patient(Membership):
    """A worker that joins when it may."""

    def __init__(self, may_join, *parts):
        super().__init__(*parts)
        self._may_join = may_join

    async def _join(self):
        await self._may_join.wait()
        await super()._join()


class Hand:
    """One worker in this process, with a session of its own."""

    def __init__(self, session, app, terms):
        self.session = session
        self.store = AppStore(session, app_layout(namespace_path(session.root), app))
        self.works = {}
        self.sources = {}
        self.stop = asyncio.Event()
        self.may_join = asyncio.Event()
        self.may_join.set()
        self.membership = Patient(self.may_join, self.store, terms, self, self._begin)

    @property
    def name(self):
        return self.membership.name

    @property
    def held(self):
        return {queue for queue, work in self.works.items() if not work.abandoned and not work.done}

    async def eligible(self, queues):
        return queues

    def of(self, queue):
        return self.sources.get(queue)

    def _begin(self, claims, rested):
        works = [Idle(claim, rested) for claim in claims]
        self.works |= {claim.queue: work for claim, work in zip(claims, works, strict=True)}
        return works


class Crew:
    """Any number of workers of one application below a root of their own."""

    def __init__(self, zookeeper, settle_for=0.2, timeout=6.0):
        self.zookeeper = zookeeper
        self.options = own_root(zookeeper, timeout)
        self.terms = MembershipOptions(timeout, settle_for)
        self.hands = []
        self._tasks = []

    async def open(self, stack):
        self.watcher = await stack.enter_async_context(open_session(self.options))
        await self.watcher.wait_connected()
        self.store = AppStore(self.watcher, app_layout(namespace_path(self.watcher.root), "sync"))
        await self.store.ensure()
        self._sessions = await stack.enter_async_context(AsyncExitStack())
        stack.push_async_callback(self._stop)

    async def make_queues(self, count, event_type="orders"):
        sources = [QueueSource(event_type, str(number)) for number in range(count)]
        await self.store.create_queues(sources, ())
        return sorted(source.queue for source in sources)

    async def join(self, count=1):
        sessions = [await self._sessions.enter_async_context(open_session(self.options)) for _ in range(count)]
        joined = [Hand(session, "sync", self.terms) for session in sessions]
        self._tasks += [asyncio.create_task(hand.membership.run(hand.stop)) for hand in joined]
        self.hands += joined
        await eventually(lambda: all(hand.name for hand in joined))
        return joined

    async def listed(self):
        return await self.store.holdings(await self.store.workers())

    async def shared_out(self, queues, workers, within=60.0):
        """Wait until every queue is listed by exactly one of so many workers, in fair shares."""
        state = {}

        async def good():
            nonlocal state
            state = await self.listed()
            everything = sorted(queue for held in state.values() for queue in held)
            sizes = [len(held) for held in state.values()]
            return len(state) == workers and everything == list(queues) and max(sizes) - min(sizes) <= 1

        deadline = time.monotonic() + within
        while not await good():
            assert time.monotonic() < deadline, f"not shared out within {within} s: {state}"
            await asyncio.sleep(0.02)
        return state

    async def _stop(self):
        for hand in self.hands:
            hand.stop.set()
            hand.may_join.set()
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def open_crew(zookeeper, **terms):
    async with AsyncExitStack() as stack:
        crew = Crew(zookeeper, **terms)
        await crew.open(stack)
        yield crew


async def znode(session, path):
    return json.loads((await session.get(path)).data)
