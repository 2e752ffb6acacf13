"""Leader election against a real ZooKeeper."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from zookeeper_tools import eventually, expire, own_root

from meantime.coordination.election import Election, Leadership
from meantime.coordination.session import open_session
from meantime.coordination.ticket_queue import holding
from meantime.errors import CoordinationLost
from meantime.tasks import running


class Candidate:
    def __init__(self, session, name: str) -> None:
        self.session = session
        self.election = Election(session, "oscillator", name)
        self.name = name
        self.leadership: Leadership | None = None
        self.epochs: list[int] = []

    @property
    def leads(self) -> bool:
        return self.leadership is not None and self.leadership.held

    async def lead(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.epochs.append(leadership.epoch)
        await asyncio.Event().wait()


@pytest.fixture
async def candidates(services):
    options = own_root(services.zookeeper)
    async with AsyncExitStack() as stack:
        standing = []
        for name in ("a", "b", "c"):
            candidate = Candidate(await stack.enter_async_context(open_session(options)), name)
            await stack.enter_async_context(running(candidate.election.run(candidate.lead), name))
            standing.append(candidate)
        await eventually(lambda: leaders(standing))
        yield standing


def leaders(candidates: list[Candidate]) -> list[str]:
    return [candidate.name for candidate in candidates if candidate.leads]


async def test_exactly_one_leads_and_everybody_knows_who(candidates) -> None:
    (leading,) = leaders(candidates)
    assert {await candidate.election.leader() for candidate in candidates} == {leading}


async def test_a_standby_takes_over_with_a_greater_epoch(candidates, services) -> None:
    former = next(candidate for candidate in candidates if candidate.leads)
    epoch = former.epochs[-1]
    await expire(former.session, services.zookeeper)
    await eventually(lambda: len(leaders(candidates)) == 1 and leaders(candidates) != [former.name])
    successor = next(candidate for candidate in candidates if candidate.leads)
    assert successor.epochs[-1] > epoch


async def test_a_leader_that_is_suspended_knows_at_once_and_stands_again(services) -> None:
    async with open_session(own_root(services.zookeeper)) as session:
        election = Election(session, "oscillator", "a")
        async with election.leadership() as first:
            first.require()
            session._client._connection.drop()
            async with asyncio.timeout(60):
                await first.ended.wait()
            with pytest.raises(CoordinationLost):
                first.require()
        async with asyncio.timeout(60), election.leadership() as second:
            assert second.epoch > first.epoch


async def test_work_that_fails_passes_the_leadership_on(services) -> None:
    options = own_root(services.zookeeper)
    async with open_session(options) as one, open_session(options) as two:
        failing, standby = Election(one, "duty", "one"), Candidate(two, "two")
        standby.election = Election(two, "duty", "two")
        attempts = 0

        async def fail(_: Leadership) -> None:
            nonlocal attempts
            attempts += 1
            await eventually(lambda: standby.session.connected)
            await asyncio.sleep(0.2)
            raise RuntimeError("cannot lead")

        async with running(failing.run(fail), "one"), running(standby.election.run(standby.lead), "two"):
            await eventually(lambda: standby.leads)


async def test_nobody_leads_without_candidates(services) -> None:
    async with open_session(own_root(services.zookeeper)) as session:
        await session.wait_connected()
        assert await Election(session, "nothing", "x").leader() is None


async def test_a_lock_is_held_by_one_at_a_time(services) -> None:
    options = own_root(services.zookeeper)
    inside = most = 0
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(open_session(options)) for _ in range(4)]

        async def work(session) -> None:
            nonlocal inside, most
            await session.wait_connected()
            for _ in range(5):
                async with holding(session, f"{session.root}/lock"):
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0.002)
                    inside -= 1

        await asyncio.gather(*map(work, sessions))
    assert (inside, most) == (0, 1)
