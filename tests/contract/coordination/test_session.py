"""The session against a real ZooKeeper."""

import asyncio
import socket

import pytest
from zookeeper_tools import eventually, expire, own_root

from meantime.coordination.session import SessionOptions, SessionState, open_session
from meantime.coordination.views import follow_children, follow_data, open_children_view
from meantime.errors import Conflict, CoordinationLost, Forbidden, NotFound, VersionMoved


@pytest.fixture
async def session(services):
    async with open_session(own_root(services.zookeeper)) as session:
        await session.wait_connected()
        yield session


async def test_nodes_are_created_read_changed_and_deleted(session) -> None:
    path = f"{session.root}/a/b"
    assert await session.create(path, b"one") == path
    assert (await session.get(path)).data == b"one"
    assert await session.set(path, b"two", version=0) == 1
    assert await session.children(f"{session.root}/a") == ["b"]
    await session.delete(path)
    assert await session.exists(path) is None


async def test_refusals_are_facts(session) -> None:
    path = f"{session.root}/x"
    with pytest.raises(NotFound):
        await session.get(path)
    await session.create(path)
    with pytest.raises(Conflict):
        await session.create(path)
    with pytest.raises(VersionMoved):
        await session.set(path, b"", version=7)


async def test_the_root_may_be_a_suffix_of_the_servers() -> None:
    assert SessionOptions("a:1,b:2/here/it/is", root="/elsewhere").layout.root == "/here/it/is"
    assert SessionOptions("a:1,b:2/here").servers == "a:1,b:2"
    assert SessionOptions("a:1").layout.root == "/meantime"


async def test_without_zookeeper_a_session_opens_and_calls_fail_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with open_session(SessionOptions(f"127.0.0.1:{port}")) as session:
        with pytest.raises(CoordinationLost):
            await session.get("/anything")
        assert session.state is SessionState.LOST


async def test_what_a_digest_user_creates_is_closed_to_others(services) -> None:
    options = own_root(services.zookeeper)
    secret = SessionOptions(options.hosts, digest_user="meantime", digest_password="pass:word")
    async with open_session(secret) as owner, open_session(options) as stranger:
        await owner.wait_connected()
        await stranger.wait_connected()
        path = await owner.create(f"{owner.root}/secret", b"1")
        assert (await owner.get(path)).data == b"1"
        with pytest.raises(Forbidden):
            await stranger.get(path)
        with pytest.raises(Forbidden):
            await stranger.create(f"{owner.root}/other")


async def test_after_expiry_there_is_a_new_session_and_ephemerals_are_gone(session, services) -> None:
    states: list[SessionState] = []
    session.on_change(states.append)
    before = session.id
    path = await session.create(f"{session.root}/mine", ephemeral=True)
    await expire(session, services.zookeeper)
    await eventually(lambda: session.connected and session.id != before)
    assert SessionState.LOST in states
    assert states[-1] is SessionState.CONNECTED
    assert await session.exists(path) is None


async def test_data_is_followed_from_before_it_exists_to_after_the_session_was_lost(session, services) -> None:
    path = f"{session.root}/followed"
    seen = follow_data(session, path)
    assert await anext(seen) is None
    await session.create(path, b"1")
    assert (await anext(seen)).data == b"1"
    await expire(session, services.zookeeper)
    async with open_session(own_root(services.zookeeper)) as other:
        await other.wait_connected()
        await other.set(path, b"2")
    while (await anext(seen)).data != b"2":
        pass
    await session.wait_connected()
    await session.delete(path)
    while await anext(seen) is not None:
        pass


async def test_children_are_followed(session) -> None:
    seen = follow_children(session, f"{session.root}/folder")
    assert await anext(seen) == []
    await session.create(f"{session.root}/folder/a")
    while await anext(seen) != ["a"]:
        pass
    await session.create(f"{session.root}/folder/b")
    assert await anext(seen) == ["a", "b"]


async def test_a_directory_keeps_names_and_data_through_an_expiry(session, services) -> None:
    async with open_children_view(session, f"{session.root}/folder") as directory:
        await directory.known.wait()
        assert directory.current == {}
        await session.create(f"{session.root}/folder/a", b"1")
        await session.create(f"{session.root}/folder/b", b"1")
        await eventually(lambda: directory.current == {"a": b"1", "b": b"1"})
        before = session.id
        await expire(session, services.zookeeper)
        await eventually(lambda: session.connected and session.id != before)
        assert directory.current == {"a": b"1", "b": b"1"}
        await session.set(f"{session.root}/folder/a", b"2")
        await session.delete(f"{session.root}/folder/b")
        await eventually(lambda: directory.current == {"a": b"2"})


async def test_only_the_sessions_own_node_is_discarded(session, services) -> None:
    async with open_session(own_root(services.zookeeper)) as other:
        await other.wait_connected()
        path = await other.create(f"{session.root}/theirs", b"x", ephemeral=True)
        await session.discard(path)
        assert await session.exists(path)
        await other.discard(path, b"something else")
        assert await session.exists(path)
        await other.discard(path, b"x")
        assert await session.exists(path) is None


async def test_many_calls_at_once_come_back_in_order(session) -> None:
    path = await session.create(f"{session.root}/counter", b"")
    versions = await asyncio.gather(*(session.set(path, b"") for _ in range(500)))
    assert versions == list(range(1, 501))
