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
        self.session = self.barrier = None

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
        yield node


@pytest.fixture
def options(services):
    return own_root(services.zookeeper)


@pytest.fixture
async def nodes(options):
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(node_of(options, f"node-{number}")) for number in (1, 2, 3)]


async def test_a_bump_adds_one_and_is_acknowledged_by_all_after_they_reacted(nodes) -> None:
    first, *_ = nodes
    version = await first.barrier.bump()
    assert version == 1
    assert await first.barrier.wait_for(version, timeout=5) < 5
    assert await first.barrier.acknowledgements() == {"node-1": 1, "node-2": 1, "node-3": 1}
    assert all(node.reactions[-1] == (1, frozenset()) for node in nodes)


async def test_the_structure_is_created_once_when_all_start_together(options) -> None:
    async with AsyncExitStack() as stack:
        waiting = (stack.enter_async_context(node_of(options, f"node-{number}")) for number in range(8))
        nodes = await asyncio.gather(*waiting)
        session = nodes[0].session
        assert (await session.get(session.layout.version)).version == 0
        assert await session.children(session.layout.timelines) == ["lock", "locked_et", "nodes", "version"]
        assert await session.children(session.layout.timelines_lock) == []
        assert (await session.get(session.layout.version)).data == b"0"


async def test_concurrent_bumps_add_exactly_one_each(nodes) -> None:
    versions = await asyncio.gather(*(node.barrier.bump() for node in nodes for _ in range(20)))
    assert sorted(versions) == list(range(1, 61))


async def test_what_is_locked_before_a_bump_is_known_to_all_who_acknowledge_it(nodes) -> None:
    first, *_ = nodes
    for round in range(20):
        await first.barrier.lock(f"orders-{round}", b"me")
        await first.barrier.wait_for(await first.barrier.bump(), timeout=5)
        assert all(f"orders-{round}" in node.barrier.locked for node in nodes)
        await first.barrier.unlock(f"orders-{round}", b"me")
        await first.barrier.wait_for(await first.barrier.bump(), timeout=5)
        assert all(not node.barrier.locked for node in nodes)


async def test_a_lock_of_any_client_is_reacted_to_without_a_bump(nodes) -> None:
    session = nodes[0].session
    path = await session.create(session.layout.locked_event_type("orders"), ephemeral=True)
    await eventually(lambda: all(node.reactions[-1] == (0, frozenset({"orders"})) for node in nodes))
    await session.delete(path)
    await eventually(lambda: all(node.reactions[-1] == (0, frozenset()) for node in nodes))


async def test_a_second_lock_is_a_conflict_that_names_the_holder(nodes) -> None:
    one, two, _ = nodes
    await one.barrier.lock("orders", b"switch 7 of node-1")
    for barrier in (one.barrier, two.barrier):
        with pytest.raises(Conflict) as refused:
            await barrier.lock("orders", b"switch 8")
        assert refused.value.extras["holder"] == "switch 7 of node-1"
    await two.barrier.unlock("orders", b"switch 8")
    await one.barrier.confirm("orders", b"switch 7 of node-1")
    await one.barrier.unlock("orders", b"switch 7 of node-1")
    await one.barrier.unlock("orders", b"switch 7 of node-1")
    await two.barrier.lock("orders", b"switch 8")


async def test_who_does_not_react_is_named_at_the_timeout(nodes) -> None:
    first, second, third = nodes
    second.gate.clear()
    third.gate.clear()
    version = await first.barrier.bump()
    with pytest.raises(BarrierTimeout) as timeout:
        await first.barrier.wait_for(version, timeout=0.3)
    assert timeout.value.missing == ["node-2", "node-3"]
    second.gate.set()
    third.gate.set()
    await first.barrier.wait_for(version, timeout=5)


async def test_the_own_reaction_can_be_waited_for_without_the_others(nodes) -> None:
    first, second, _ = nodes
    second.gate.clear()
    version = await first.barrier.bump()
    await first.barrier.wait_here(version, timeout=5)
    assert first.reactions[-1] == (version, frozenset())
    with pytest.raises(BarrierTimeout) as timeout:
        await second.barrier.wait_here(version, timeout=0.3)
    assert timeout.value.missing == ["node-2"]
    second.gate.set()
    await second.barrier.wait_here(version, timeout=5)


async def test_a_switch_adds_two_also_when_others_move_the_version_meanwhile(nodes) -> None:
    first, second, _ = nodes
    steps = SwitchSteps(first.session)
    await steps.prepare()
    await second.barrier.bump()
    assert await steps.begin("s1", "orders", b"s1") == 2
    assert await steps.holder("orders") == b"s1"
    await second.barrier.bump()
    assert await steps.end("s1", "orders") == 4
    assert await steps.end("s1", "orders") == 4
    assert await steps.holder("orders") is None


async def test_a_lock_that_is_not_the_own_one_is_left_alone(nodes) -> None:
    first, second, _ = nodes
    steps = SwitchSteps(first.session)
    await steps.prepare()
    await steps.begin("s1", "orders", b"s1")
    await first.barrier.unlock("orders", b"s1")
    await second.barrier.lock("orders", b"another")
    await second.barrier.bump()
    assert await steps.end("s1", "orders") == 3
    assert await steps.holder("orders") == b"another"


async def test_a_failed_reaction_is_tried_again_and_not_acknowledged(nodes) -> None:
    first, second, _ = nodes
    second.failures = 3
    version = await first.barrier.bump()
    with pytest.raises(BarrierTimeout):
        await first.barrier.wait_for(version, timeout=0.1)
    await first.barrier.wait_for(version, timeout=5)
    assert second.failures == 0
    assert second.reactions[-1] == (version, frozenset())


async def test_a_slow_node_reacts_only_to_the_newest_version(nodes) -> None:
    first, second, _ = nodes
    second.gate.clear()
    versions = [await first.barrier.bump() for _ in range(10)]
    await eventually(lambda: first.barrier.version == 10)
    second.gate.set()
    await first.barrier.wait_for(versions[-1], timeout=5)
    assert [version for version, _ in second.reactions if version] in ([1, 10], [10])


async def test_a_node_that_leaves_stops_counting(nodes, options) -> None:
    first, *_ = nodes
    async with node_of(options, "node-4") as fourth:
        fourth.gate.clear()
        version = await first.barrier.bump()
        with pytest.raises(BarrierTimeout, match="node-4"):
            await first.barrier.wait_for(version, timeout=0.2)
        waiting = asyncio.create_task(first.barrier.wait_for(version, timeout=10))
    assert await waiting < 5


async def test_a_node_that_joins_during_a_barrier_is_counted_or_has_seen_it(nodes, options) -> None:
    first, *_ = nodes
    for round in range(10):
        holder = f"round {round}".encode()

        async def switch(holder: bytes = holder) -> None:
            await first.barrier.lock("orders", holder)
            await first.barrier.wait_for(await first.barrier.bump(), timeout=5)

        switching = asyncio.create_task(switch())
        await asyncio.sleep(round / 1000)
        async with node_of(options, "late") as late:
            await switching
            assert late.reactions[-1][1] == {"orders"}
            await first.barrier.unlock("orders", holder)
            await first.barrier.wait_for(await first.barrier.bump(), timeout=5)
            assert late.reactions[-1][1] == frozenset()


async def test_a_node_that_lost_its_session_registers_again_and_catches_up(nodes, services) -> None:
    first, second, _ = nodes
    await first.barrier.wait_for(await first.barrier.bump(), timeout=5)
    before, reacted = second.session.id, len(second.reactions)
    await expire(second.session, services.zookeeper)
    await first.barrier.bump()
    await eventually(lambda: second.session.id != before and second.barrier.registered)
    assert second.reactions[reacted:][-1] == (2, frozenset())
    await eventually(lambda: second.barrier.version == 2)
    acknowledged = await first.barrier.acknowledgements()
    assert acknowledged["node-2"] == 2


async def test_whoever_waits_and_loses_its_session_is_told_so(nodes, services) -> None:
    first, second, _ = nodes
    second.gate.clear()
    await first.barrier.lock("orders", b"me")
    version = await first.barrier.bump()
    waiting = asyncio.create_task(first.barrier.wait_for(version, timeout=20))
    await expire(first.session, services.zookeeper)
    with pytest.raises(CoordinationLost):
        await waiting
    with pytest.raises(CoordinationLost):
        await first.barrier.confirm("orders", b"me")
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
