"""The version barrier against a real ZooKeeper; processes that are killed or frozen are in tests/system."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from zookeeper_tools import eventually, expire, own_root

from meantime.coordination.barrier import open_barrier
from meantime.coordination.session import open_session
from meantime.coordination.switch_steps import SwitchSteps
from meantime.errors import BarrierTimeout, Conflict, CoordinationLost


class Node:
    """Records what it reacts to; `gate` holds reactions up, `failures` makes the next ones fail."""

    def __init__(self) -> None:
        self.reactions: list[tuple[int, frozenset[str]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures = 0
        self.session = self.barrier = self.steps = None

    async def begin(self, event_type: str) -> int:
        """The first step of a switch that is named after its event type."""
        return await self.steps.begin(event_type, event_type, f"switch of {event_type}".encode())

    async def end(self, event_type: str) -> int:
        return await self.steps.end(event_type, event_type)

    async def react(self, version: int, locked: frozenset[str]) -> None:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not this time")
        self.reactions.append((version, locked))


@asynccontextmanager
async def node_of(options, node_id):
    node = Node()
    async with open_session(options) as node.session, open_barrier(node.session, node_id, node.react) as node.barrier:
        async with asyncio.timeout(10):
            await node.barrier.wait_registered()
        node.steps = SwitchSteps(node.session)
        await node.steps.prepare()
        yield node


@pytest.fixture
def options(services):
    return own_root(services.zookeeper)


@pytest.fixture
async def nodes(options):
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(node_of(options, f"node-{number}")) for number in (1, 2, 3)]


async def test_a_step_of_a_switch_adds_one_and_is_acknowledged_by_all_after_they_reacted(nodes) -> None:
    first, *_ = nodes
    version = await first.begin("orders")
    assert version == 1
    await first.barrier.wait_for(version, timeout=60)
    assert await first.barrier.acknowledgements() == {"node-1": 1, "node-2": 1, "node-3": 1}
    assert all(node.reactions[-1] == (1, frozenset({"orders"})) for node in nodes)


async def test_the_structure_is_created_once_when_all_start_together(options) -> None:
    async with AsyncExitStack() as stack:
        waiting = (stack.enter_async_context(node_of(options, f"node-{number}")) for number in range(8))
        nodes = await asyncio.gather(*waiting)
        session = nodes[0].session
        assert (await session.get(session.layout.version)).version == 0
        assert await session.children(session.layout.timelines) == ["lock", "locked_et", "nodes", "version"]
        assert await session.children(session.layout.timelines_lock) == []
        assert (await session.get(session.layout.version)).data == b"0"


async def test_concurrent_switches_add_exactly_two_each(nodes) -> None:
    switches = [(node, f"orders-{number}-{round}") for number, node in enumerate(nodes) for round in range(20)]
    versions = await asyncio.gather(*(node.begin(name) for node, name in switches))
    assert sorted(versions) == list(range(1, 61))
    versions = await asyncio.gather(*(node.end(name) for node, name in switches))
    assert sorted(versions) == list(range(61, 121))


async def test_what_is_locked_with_a_version_is_known_to_all_who_acknowledge_it(nodes) -> None:
    first, *_ = nodes
    for round in range(20):
        await first.barrier.wait_for(await first.begin(f"orders-{round}"), timeout=60)
        assert all(f"orders-{round}" in node.barrier.locked for node in nodes)
        await first.barrier.wait_for(await first.end(f"orders-{round}"), timeout=60)
        assert all(not node.barrier.locked for node in nodes)


async def test_a_lock_of_any_client_is_reacted_to_without_a_new_version(nodes) -> None:
    session = nodes[0].session
    path = await session.create(session.layout.locked_event_type("orders"), ephemeral=True)
    await eventually(lambda: all(node.reactions[-1] == (0, frozenset({"orders"})) for node in nodes))
    await session.delete(path)
    await eventually(lambda: all(node.reactions[-1] == (0, frozenset()) for node in nodes))


async def test_a_second_switch_of_a_locked_event_type_is_a_conflict_and_leaves_the_lock_alone(nodes) -> None:
    one, two, _ = nodes
    await one.steps.begin("s7", "orders", b"switch 7 of node-1")
    for node in (one, two):
        with pytest.raises(Conflict):
            await node.steps.begin("s8", "orders", b"switch 8")
        assert await node.steps.end("s8", "orders") == 1
        assert await node.steps.holder("orders") == b"switch 7 of node-1"
    assert await one.steps.end("s7", "orders") == 2
    assert await one.steps.end("s7", "orders") == 2
    assert await two.steps.begin("s8", "orders", b"switch 8") == 3


async def test_who_does_not_react_is_named_at_the_timeout(nodes) -> None:
    first, second, third = nodes
    second.gate.clear()
    third.gate.clear()
    version = await first.begin("orders")
    with pytest.raises(BarrierTimeout) as timeout:
        await first.barrier.wait_for(version, timeout=3.0)
    assert timeout.value.missing == ["node-2", "node-3"]
    second.gate.set()
    third.gate.set()
    await first.barrier.wait_for(version, timeout=60)


async def test_those_who_do_not_react_are_known_after_a_while_and_need_not_be_waited_for(nodes) -> None:
    first, second, third = nodes
    second.gate.clear()
    version = await first.begin("orders")
    await third.barrier.wait_here(version, timeout=60)
    assert await first.barrier.missing_after(version, patience=1.0, timeout=60) == ["node-2"]
    assert await first.barrier.missing_after(version, patience=60, timeout=60, without=["node-2"]) == []
    second.gate.set()
    assert await first.barrier.missing_after(version, patience=60, timeout=60) == []


async def test_the_own_reaction_can_be_waited_for_without_the_others(nodes) -> None:
    first, second, _ = nodes
    second.gate.clear()
    version = await first.begin("orders")
    await first.barrier.wait_here(version, timeout=60)
    assert first.reactions[-1] == (version, frozenset({"orders"}))
    with pytest.raises(BarrierTimeout) as timeout:
        await second.barrier.wait_here(version, timeout=3.0)
    assert timeout.value.missing == ["node-2"]
    second.gate.set()
    await second.barrier.wait_here(version, timeout=60)


async def test_a_switch_adds_two_also_when_others_move_the_version_meanwhile(nodes) -> None:
    first, second, _ = nodes
    await second.begin("payments")
    assert await first.begin("orders") == 2
    assert await first.steps.holder("orders") == b"switch of orders"
    await second.end("payments")
    assert await first.end("orders") == 4
    assert await first.end("orders") == 4
    assert await first.steps.holder("orders") is None


async def test_a_switch_that_lost_its_initiator_is_ended_by_another_node_and_counts_once(nodes) -> None:
    first, second, _ = nodes
    await first.begin("orders")
    assert await second.end("orders") == 2
    assert await second.steps.holder("orders") is None
    assert await first.end("orders") == 2


async def test_a_lock_that_is_not_the_own_one_is_left_alone(nodes) -> None:
    first, second, _ = nodes
    await first.begin("orders")
    await first.session.delete(first.session.layout.locked_event_type("orders"))
    await second.steps.begin("s2", "orders", b"another")
    assert await first.end("orders") == 3
    assert await first.steps.holder("orders") == b"another"


async def test_a_failed_reaction_is_tried_again_and_not_acknowledged(nodes) -> None:
    first, second, _ = nodes
    second.failures = 3
    version = await first.begin("orders")
    with pytest.raises(BarrierTimeout):
        await first.barrier.wait_for(version, timeout=0.1)
    await first.barrier.wait_for(version, timeout=60)
    assert second.failures == 0
    assert second.reactions[-1] == (version, frozenset({"orders"}))


async def test_a_slow_node_reacts_only_to_the_newest_version(nodes) -> None:
    first, second, _ = nodes
    second.gate.clear()
    versions = [await first.begin(f"orders-{number}") for number in range(10)]
    await eventually(lambda: first.barrier.version == 10)
    second.gate.set()
    await first.barrier.wait_for(versions[-1], timeout=60)
    assert [version for version, _ in second.reactions if version] in ([1, 10], [10])


async def test_a_node_that_leaves_stops_counting(nodes, options) -> None:
    first, *_ = nodes
    async with node_of(options, "node-4") as fourth:
        fourth.gate.clear()
        version = await first.begin("orders")
        with pytest.raises(BarrierTimeout, match="node-4"):
            await first.barrier.wait_for(version, timeout=0.2)
        waiting = asyncio.create_task(first.barrier.wait_for(version, timeout=60))
    await waiting


async def test_a_node_that_joins_during_a_barrier_is_counted_or_has_seen_it(nodes, options) -> None:
    first, *_ = nodes

    async def lock() -> None:
        await first.barrier.wait_for(await first.begin("orders"), timeout=60)

    for round in range(10):
        locking = asyncio.create_task(lock())
        await asyncio.sleep(round / 1000)
        async with node_of(options, "late") as late:
            await locking
            assert late.reactions[-1][1] == {"orders"}
            await first.barrier.wait_for(await first.end("orders"), timeout=60)
            assert late.reactions[-1][1] == frozenset()


async def test_a_process_that_is_not_counted_reacts_and_nobody_waits_for_it(nodes, options) -> None:
    first, *_ = nodes
    other = Node()
    async with open_session(options) as session, open_barrier(session, "other", other.react, counted=False) as barrier:
        await eventually(lambda: other.reactions == [(0, frozenset())])
        await first.barrier.wait_for(await first.begin("orders"), timeout=60)
        await eventually(lambda: other.reactions[-1] == (1, frozenset({"orders"})))
        other.gate.clear()
        await first.barrier.wait_for(await first.end("orders"), timeout=60)
        other.gate.set()
        await eventually(lambda: other.reactions[-1] == (2, frozenset()))
        assert not barrier.registered
        assert "other" not in await first.barrier.acknowledgements()


async def test_a_process_that_is_not_counted_catches_up_after_a_lost_session(nodes, options, services) -> None:
    first, *_ = nodes
    other = Node()
    async with open_session(options) as session, open_barrier(session, "other", other.react, counted=False):
        await eventually(lambda: other.reactions)
        before = session.id
        await expire(session, services.zookeeper)
        await first.begin("orders")
        await eventually(lambda: session.id != before and other.reactions[-1] == (1, frozenset({"orders"})))


async def test_a_node_that_lost_its_session_registers_again_and_catches_up(nodes, services) -> None:
    first, second, _ = nodes
    await first.barrier.wait_for(await first.begin("orders"), timeout=60)
    before, reacted = second.session.id, len(second.reactions)
    await expire(second.session, services.zookeeper)
    await first.end("orders")
    await eventually(lambda: second.session.id != before and second.barrier.registered)
    await eventually(lambda: second.barrier.version == 2)
    assert second.reactions[reacted:][-1] == (2, frozenset())
    await first.barrier.wait_for(2, timeout=60)
    acknowledged = await first.barrier.acknowledgements()
    assert acknowledged["node-2"] == 2


async def test_whoever_waits_and_loses_its_session_is_told_so_and_its_lock_is_gone(nodes, services) -> None:
    first, second, _ = nodes
    second.gate.clear()
    version = await first.begin("orders")
    waiting = asyncio.create_task(first.barrier.wait_for(version, timeout=60))
    await expire(first.session, services.zookeeper)
    with pytest.raises(CoordinationLost):
        await waiting
    await first.session.wait_connected()
    assert await first.steps.holder("orders") is None
    assert await first.end("orders") == version + 1
    second.gate.set()


async def test_a_killed_predecessor_is_waited_for(services) -> None:
    options = own_root(services.zookeeper)
    async with open_session(options) as former, open_session(options) as session:
        await former.wait_connected()
        await former.create(former.layout.acknowledgement("node-1"), b"5", ephemeral=True)
        node = Node()
        async with open_barrier(session, "node-1", node.react) as barrier:
            await session.wait_connected()
            await asyncio.sleep(0.3)
            assert not barrier.registered
            await former.close()
            async with asyncio.timeout(5):
                await barrier.wait_registered()
