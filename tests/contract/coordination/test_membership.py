"""Membership against a real ZooKeeper."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from zookeeper_tools import eventually, expire, own_root

from meantime.coordination.membership import Member, Reason, open_members
from meantime.coordination.session import open_session


def member(id: str, state: str = "healthy") -> Member:
    return Member(id=id, url=f"http://{id}", release="1", started_at_ms=1, state=state)


@pytest.fixture
async def two(services):
    options = own_root(services.zookeeper)
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(2):
            session = await stack.enter_async_context(open_session(options))
            opened.append((session, await stack.enter_async_context(open_members(session))))
        yield opened


async def test_everybody_sees_who_joins_changes_and_leaves(two) -> None:
    (_, one), (session, other) = two
    changes = 0

    def count() -> None:
        nonlocal changes
        changes += 1

    other.on_change(count)
    one.join(member("a"))
    await eventually(lambda: other.current == {"a": member("a")})
    sick = Member("a", "http://a", "1", 1, "degraded", (Reason("clock_drift", "much"),), 900.0)
    one.join(sick)
    await eventually(lambda: other.current == {"a": sick})
    other.join(member("b"))
    await eventually(lambda: set(one.current) == {"a", "b"})
    await one.leave()
    await eventually(lambda: set(other.current) == {"b"})
    assert changes >= 4
    assert (await session.get(session.layout.member("b"))).data.startswith(b'{"id":"b","url":"http://b"')


async def test_a_member_is_back_after_its_session_was_lost(two, services) -> None:
    (session, one), (_, other) = two
    one.join(member("a"))
    await eventually(lambda: "a" in other.current)
    before = session.id
    await expire(session, services.zookeeper)
    await eventually(lambda: session.id != before)
    await eventually(lambda: "a" in other.current and "a" in one.current)
    node = await session.get(session.layout.member("a"))
    assert node.owner == session.id


async def test_the_record_of_a_killed_predecessor_is_waited_for(two) -> None:
    (former, _), (_, members) = two
    await former.wait_connected()
    await former.create(former.layout.member("a"), b'{"id":"a","url":"","release":"","started_at_ms":0}', ephemeral=True)
    members.join(member("a"))
    await asyncio.sleep(0.3)
    assert not members.joined.is_set()
    await former.close()
    async with asyncio.timeout(60):
        await members.joined.wait()
    await eventually(lambda: members.current == {"a": member("a")})


async def test_the_last_known_members_stand_while_zookeeper_is_away(services) -> None:
    async with open_session(own_root(services.zookeeper)) as session, open_members(session) as members:
        members.join(member("a"))
        await eventually(lambda: "a" in members.current)
        await session.close()
        assert set(members.current) == {"a"}


async def test_a_record_that_cannot_be_read_is_left_out(two) -> None:
    (session, one), _ = two
    await session.wait_connected()
    await session.create(session.layout.member("broken"), b"\xff{", ephemeral=True)
    one.join(member("a"))
    await eventually(lambda: set(one.current) == {"a"})
