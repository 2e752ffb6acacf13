"""The version barrier over real processes that are killed and frozen, and a ZooKeeper that is restarted."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from zookeeper_process import ZooKeeperProcess, own_zookeeper

from meantime.coordination.barrier import VersionBarrier, open_barrier
from meantime.coordination.session import SessionOptions, open_session
from meantime.coordination.switch_steps import SwitchSteps
from meantime.errors import BarrierTimeout, CoordinationLost

SCRIPT = Path(__file__).parents[1] / "support" / "barrier_participant.py"
SESSION_TIMEOUT = 8.0


class Participant:
    def __init__(self, hosts: str, node_id: str) -> None:
        command = [sys.executable, str(SCRIPT), hosts, node_id, str(SESSION_TIMEOUT)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._told = ""

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> str:
        """Stop it and return what it has told."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self._told = self.process.communicate(timeout=60)[0].decode()
        return self._told


@pytest.fixture(scope="module")
def breakable_zookeeper(tmp_path_factory) -> Iterator[ZooKeeperProcess]:
    with own_zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@pytest.fixture
def zookeeper(breakable_zookeeper: ZooKeeperProcess) -> Iterator[ZooKeeperProcess]:
    """One for all tests, each with a root of its own; it runs again after a test that has killed or frozen it."""
    yield breakable_zookeeper
    breakable_zookeeper.recover()


@contextmanager
def participants(hosts: str, *names: str) -> Iterator[list[Participant]]:
    with ExitStack() as stack:
        started = [Participant(hosts, name) for name in names]
        for participant in started:
            stack.callback(participant.end)
        yield started


@dataclass
class Initiator:
    """The third node, in this process; it switches as production does."""

    barrier: VersionBarrier
    steps: SwitchSteps

    async def begin(self, event_type: str) -> int:
        await self.steps.prepare()
        return await self.steps.begin(event_type, event_type, f"switch of {event_type}".encode())

    async def end(self, event_type: str) -> int:
        return await self.steps.end(event_type, event_type)


@asynccontextmanager
async def initiator(hosts: str, timeout: float = SESSION_TIMEOUT) -> AsyncIterator[Initiator]:

    async def react(version: int, locked: frozenset[str]) -> None:
        pass

    options = SessionOptions(hosts, timeout=timeout)
    async with open_session(options) as session, open_barrier(session, "node-1", react) as barrier:
        yield Initiator(barrier, SwitchSteps(session))


async def until_registered(barrier: VersionBarrier, *names: str, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    await barrier.wait_registered()
    while not set(names) <= set(await barrier.acknowledgements()):
        assert time.monotonic() < deadline, f"{names} did not register within {within} s"
        await asyncio.sleep(0.05)


def root_in(zookeeper: ZooKeeperProcess) -> str:
    return f"{zookeeper.address}/test-{uuid.uuid4().hex}"


async def test_three_processes_acknowledge_every_step_of_every_switch(zookeeper) -> None:
    """How long that takes is measured in bench/nodes.py."""
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2", "node-3"):
        async with initiator(hosts) as node:
            await until_registered(node.barrier, "node-1", "node-2", "node-3")
            for _ in range(50):
                await node.barrier.wait_for(await node.begin("orders"), timeout=60)
                await node.barrier.wait_for(await node.end("orders"), timeout=60)
            assert set((await node.barrier.acknowledgements()).values()) == {100}


async def test_a_frozen_process_is_named_stops_counting_with_its_session_and_catches_up(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2", "node-3") as (_, frozen):
        async with initiator(hosts) as node:
            await until_registered(node.barrier, "node-2", "node-3")
            frozen.send(signal.SIGSTOP)
            version = await node.begin("orders")
            with pytest.raises(BarrierTimeout) as timeout:
                await node.barrier.wait_for(version, timeout=3.0)
            assert timeout.value.missing == ["node-3"]
            await node.barrier.wait_for(version, timeout=60)
            assert "node-3" not in await node.barrier.acknowledgements()
            frozen.send(signal.SIGCONT)
            await until_registered(node.barrier, "node-3")
            await node.barrier.wait_for(version, timeout=60)
            assert (await node.barrier.acknowledgements())["node-3"] == version
        assert str(version) in frozen.end().split()


async def test_a_killed_process_stops_counting_when_its_session_ends(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2", "node-3") as (_, killed):
        async with initiator(hosts) as node:
            await until_registered(node.barrier, "node-2", "node-3")
            killed.send(signal.SIGKILL)
            await node.barrier.wait_for(await node.begin("orders"), timeout=60)
            assert set(await node.barrier.acknowledgements()) == {"node-1", "node-2"}


async def test_a_restarted_process_takes_its_name_again_after_its_predecessors_session(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2") as (killed,):
        async with initiator(hosts) as node:
            await until_registered(node.barrier, "node-2")
            killed.send(signal.SIGKILL)
            with participants(hosts, "node-2") as (successor,):
                await node.barrier.wait_for(await node.begin("orders"), timeout=60)
                await until_registered(node.barrier, "node-2")
                version = await node.end("orders")
                await node.barrier.wait_for(version, timeout=60)
                assert str(version) in successor.end().split()


async def test_a_barrier_converges_over_a_restart_of_zookeeper(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2", "node-3") as (_, slow):
        async with initiator(hosts) as node:
            await until_registered(node.barrier, "node-2", "node-3")
            slow.send(signal.SIGSTOP)
            version = await node.begin("orders")
            waiting = asyncio.create_task(node.barrier.wait_for(version, timeout=60))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            await asyncio.to_thread(zookeeper.kill)
            slow.send(signal.SIGCONT)
            await asyncio.to_thread(zookeeper.start)
            await waiting
            assert await node.steps.holder("orders") == b"switch of orders"
            assert await node.end("orders") == version + 1
            await node.barrier.wait_for(version + 1, timeout=60)
            assert set((await node.barrier.acknowledgements()).values()) == {version + 1}


async def test_a_step_that_the_death_of_zookeeper_cut_short_is_repeated_and_counts_once(zookeeper) -> None:
    async with initiator(root_in(zookeeper), timeout=15.0) as node:
        await until_registered(node.barrier, "node-1")
        names = [f"orders-{number}" for number in range(3)]
        assert [await node.begin(name) for name in names] == [1, 2, 3]
        ending = [asyncio.create_task(_end_for_certain(node, name)) for name in names]
        await asyncio.to_thread(zookeeper.kill)
        await asyncio.to_thread(zookeeper.start)
        await asyncio.gather(*ending)
        assert [await node.end(name) for name in names] == [6, 6, 6]
        await node.barrier.wait_for(6, timeout=60)


async def _end_for_certain(node: Initiator, name: str) -> None:
    """As whoever concludes a switch: until ZooKeeper has answered."""
    async with asyncio.timeout(30):
        while True:
            try:
                await node.end(name)
            except CoordinationLost:
                await asyncio.sleep(0.05)
            else:
                return


async def test_processes_may_start_before_zookeeper(zookeeper) -> None:
    await asyncio.to_thread(zookeeper.kill)
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2"):
        async with initiator(hosts) as node:
            await asyncio.sleep(0.5)
            assert not node.barrier.registered
            await asyncio.to_thread(zookeeper.start)
            await until_registered(node.barrier, "node-1", "node-2")
            await node.barrier.wait_for(await node.begin("orders"), timeout=60)


async def test_a_silent_zookeeper_suspends_and_comes_back(zookeeper) -> None:
    hosts = root_in(zookeeper)
    async with initiator(hosts) as node:
        await until_registered(node.barrier, "node-1")
        zookeeper.freeze()
        await asyncio.sleep(SESSION_TIMEOUT)
        zookeeper.thaw()
        await asyncio.sleep(0.1)
        await until_registered(node.barrier, "node-1")
        await node.barrier.wait_for(await node.begin("orders"), timeout=60)
