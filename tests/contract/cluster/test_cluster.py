"""Nodes that watch each other's clocks over real HTTP and a real ZooKeeper, all in one process."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import msgspec
import pytest
from zookeeper_tools import eventually, own_root

from meantime.clock import SystemClock
from meantime.cluster.observer import open_observed_clock
from meantime.cluster.service_clocks import zookeeper_clock
from meantime.cluster.view import ClusterView, open_cluster
from meantime.coordination.membership import Member
from meantime.coordination.session import Session, open_session
from meantime.database.pool import DatabaseState
from meantime.supervision import failing_tasks, kept_running

pytestmark = pytest.mark.takes(seconds=60)


class SettableClock(SystemClock):
    ahead_ms = 0

    def now_us(self) -> int:
        return super().now_us() + self.ahead_ms * 1000


@dataclass
class Node:
    clock: SettableClock
    session: Session
    view: ClusterView
    answers: bool = True
    database: DatabaseState = DatabaseState.WRITABLE

    @property
    def codes(self) -> set[str]:
        return set(self.view.health.verdict.codes)

    async def reports(self) -> dict[str, str]:
        return {report.id: report.state for report in await self.view.nodes()}


@asynccontextmanager
async def node_of(options, node_id: str, ahead_ms: int = 0):
    clock = SettableClock()
    clock.ahead_ms = ahead_ms
    node = Node(clock, None, None)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n") and node.answers:
                body = msgspec.json.encode(node.view.clock_report())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    async def ask_database() -> DatabaseState:
        return node.database

    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        stack.callback(server.close)
        port = server.sockets[0].getsockname()[1]
        node.session = await stack.enter_async_context(open_session(options))
        me = Member(node_id, f"http://127.0.0.1:{port}", "1.0", started_at_ms=clock.now_ms())
        node.view = await stack.enter_async_context(open_cluster(me, node.session, clock, ask_database))
        yield node


@pytest.fixture
async def trio(services):
    options = own_root(services.zookeeper)
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node_of(options, f"node-{number}")) for number in (1, 2, 3)]
        await eventually(lambda: all(node.view.health.healthy for node in nodes))
        yield nodes


async def test_a_clock_that_is_set_degrades_its_node_only_and_cluster_time_goes_on(trio) -> None:
    wrong, *right = trio
    before_ms, before = wrong.view.clock.now_ms(), right[0].view.clock.now_ms()
    wrong.clock.ahead_ms = 5000
    await eventually(lambda: wrong.codes == {"clock_drift"} and all(node.view.health.healthy for node in right))
    assert abs((wrong.view.clock.now_ms() - before_ms) - (right[0].view.clock.now_ms() - before)) < 500
    assert 4500 < wrong.view.clock_report().offset_ms < 5500
    assert all(-5500 < peer.offset_ms < -4500 for peer in wrong.view.clock_report().peers)
    wrong.clock.ahead_ms = 0
    await eventually(lambda: wrong.view.health.healthy)


async def test_a_joining_node_with_a_wrong_clock_is_never_healthy(trio, services) -> None:
    options = own_root(services.zookeeper)
    hosts = f"{options.servers}{trio[0].session.root}"
    async with node_of(type(options)(hosts), "node-4", ahead_ms=-5000) as fourth:
        seen: list[str] = []
        fourth.view.health.on_change(lambda verdict: seen.append(verdict.state.word))
        await eventually(lambda: fourth.codes == {"clock_drift"} and all(node.view.health.healthy for node in trio))
        assert "healthy" not in seen


async def test_every_node_tells_how_all_are(trio) -> None:
    first, second, third = trio
    second.clock.ahead_ms = 5000
    await eventually(lambda: second.codes == {"clock_drift"})
    for node in (first, third):
        await eventually(lambda node=node: node.view.members.current["node-2"].state == "degraded")
    assert await third.reports() == {"node-1": "healthy", "node-2": "degraded", "node-3": "healthy"}
    report = {report.id: report for report in await third.view.nodes()}["node-2"]
    assert report.reasons[0].code == "clock_drift"
    assert 4500 < report.clock_offset_ms < 5500


async def test_a_node_that_cannot_be_reached_is_inactive_and_two_make_no_majority(trio) -> None:
    first, second, third = trio
    second.answers = third.answers = False
    await eventually(lambda: first.codes == {"no_majority"})
    assert (await first.reports())["node-2"] == "inactive"
    second.answers = True
    await eventually(lambda: first.view.health.healthy)


async def test_a_database_that_is_missing_or_read_only_degrades_and_a_missing_one_disables_later(trio) -> None:
    first, *_ = trio
    first.database = DatabaseState.SILENT
    await eventually(lambda: first.view.health.state == "degraded")
    await eventually(lambda: first.view.health.state == "inactive")
    assert first.codes == {"storage"}
    first.database = DatabaseState.READ_ONLY
    await eventually(lambda: first.codes == {"storage_read_only"})
    assert first.view.readiness().state == "degraded"
    first.database = DatabaseState.WRITABLE
    await eventually(lambda: first.view.health.healthy)


async def test_a_background_task_that_keeps_failing_is_told_and_takes_no_work_away(services) -> None:
    async def work() -> None:
        raise ValueError("seven")

    async with node_of(own_root(services.zookeeper), "node-1") as node:
        await eventually(lambda: node.view.readiness().state == "healthy")
        async with kept_running(work, "work", "orders"):
            await eventually(lambda: bool(failing_tasks()))
            readiness = node.view.readiness()
            assert (readiness.state, readiness.reasons[0].code) == ("healthy", "background_task")
            assert readiness.reasons[0].detail == "work orders keeps failing: ValueError: seven"
            assert node.view.health.healthy
            await eventually(lambda: bool(node.view.members.current["node-1"].reasons))
            assert node.view.members.current["node-1"].state == "healthy"
        assert node.view.readiness().reasons == ()


async def test_a_node_alone_whose_clock_contradicts_the_services_does_not_trust_it(services) -> None:
    async with node_of(own_root(services.zookeeper), "node-1", ahead_ms=600_000) as alone:
        seen: list[str] = []
        alone.view.health.on_change(lambda verdict: seen.append(verdict.state.word))
        await eventually(lambda: alone.codes == {"clock_drift"})
        assert "ahead of the clock of ZooKeeper" in alone.view.readiness().reasons[0].detail
        assert "healthy" not in seen
        alone.clock.ahead_ms = 0
        await eventually(lambda: alone.view.health.healthy)


async def test_a_process_waits_until_there_is_cluster_time_that_can_be_right(services) -> None:
    """Alone it waits; with a node that is an hour ahead it waits, too; and later it does not follow such a clock."""
    options = own_root(services.zookeeper)
    async with AsyncExitStack() as opened, open_session(options) as session:
        waiting = asyncio.create_task(
            opened.enter_async_context(open_observed_clock(session, {"ZooKeeper": zookeeper_clock(session)}))
        )
        await asyncio.sleep(1.5)
        assert not waiting.done()
        async with node_of(options, "node-1", ahead_ms=3_600_000) as node:
            await eventually(lambda: node.codes == {"clock_drift"})
            await asyncio.sleep(1.5)
            assert not waiting.done()
            node.clock.ahead_ms = 200
            clock = await asyncio.wait_for(waiting, 60)
            await eventually(lambda: abs(clock.now_ms() - node.clock.now_ms()) < 100)
            node.clock.ahead_ms = 3_600_000
            await eventually(lambda: node.codes == {"clock_drift"})
            await asyncio.sleep(1.5)
            assert abs(clock.now_ms() - SystemClock().now_ms()) < 2000


async def test_a_stopping_node_says_so_and_leaves_at_once(services) -> None:
    options = own_root(services.zookeeper)
    async with node_of(options, "node-1") as stays:
        async with node_of(options, "node-2") as goes:
            await eventually(lambda: stays.view.health.healthy and goes.view.health.healthy)
            goes.view.stop()
            assert goes.codes == {"stopping"}
            await eventually(lambda: stays.view.members.current["node-2"].state == "inactive")
        await eventually(lambda: set(stays.view.members.current) == {"node-1"})
