"""The proof that a session is alive, against a real ZooKeeper and by a clock that the test moves."""

import asyncio

import pytest
from zookeeper_tools import eventually, own_root

from meantime.coordination.liveness import SessionLiveness
from meantime.coordination.session import open_session
from meantime.errors import CoordinationLost
from meantime.tasks import running


class Now:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def session(services):
    async with open_session(own_root(services.zookeeper)) as opened:
        await opened.wait_connected()
        yield opened


async def test_an_answer_proves_the_session_from_the_moment_its_request_was_sent(session) -> None:
    now = Now()
    liveness = SessionLiveness(session, 6.0, now)
    assert not liveness.proven
    liveness.renew(sent_at=now.seconds - 3.5)
    assert liveness.proven
    now.seconds += 0.6
    assert not liveness.proven
    liveness.renew(sent_at=now.seconds)
    liveness.renew(sent_at=now.seconds - 3.0)
    now.seconds += 3.9
    assert liveness.proven


async def test_a_process_that_was_frozen_has_no_proof_until_zookeeper_has_answered_again(session) -> None:
    now = Now()
    path = session.layout.member("mine")
    await session.create(path, ephemeral=True)
    liveness = SessionLiveness(session, 6.0, now)
    async with running(liveness.run(path), name="liveness"):
        await eventually(lambda: liveness.proven)
        renewed = liveness.renewed.count
        now.seconds += 60
        assert not liveness.proven
        await eventually(lambda: liveness.proven)
        assert liveness.renewed.count == renewed + 1


async def test_a_node_that_is_gone_is_no_proof(session) -> None:
    liveness = SessionLiveness(session, 6.0)
    path = session.layout.member("mine")
    with pytest.raises(CoordinationLost):
        await liveness.run(path)
    async with running(liveness.run(path, may_be_missing=True), name="liveness"):
        await asyncio.sleep(0.1)
        assert not liveness.proven
        await session.create(path, ephemeral=True)
        await eventually(lambda: liveness.proven)


async def test_without_a_connection_there_is_no_proof(services) -> None:
    async with open_session(own_root(services.zookeeper)) as session:
        await session.wait_connected()
        liveness = SessionLiveness(session, 6.0)
        liveness.renew(liveness.now())
        assert liveness.proven
    assert not liveness.proven
