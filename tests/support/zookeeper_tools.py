"""What tests on a real ZooKeeper need: roots of their own, forced expiry, and waiting for a condition."""

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

from kazoo.client import KazooClient

from meantime.coordination.session import Session, SessionOptions, SessionState


def own_root(zookeeper: str, timeout: float = 6.0) -> SessionOptions:
    return SessionOptions(f"{zookeeper}/test-{uuid.uuid4().hex}", timeout=timeout)


async def expire(session: Session, zookeeper: str) -> None:
    """End the session as ZooKeeper does: a second client with its id and password says goodbye. The first client comes back
    at once and may get its session before that, so it is done again until the session is lost."""
    lost = asyncio.Event()
    session.on_change(lambda state: lost.set() if state is SessionState.LOST else None)
    for _ in range(20):
        await asyncio.to_thread(_say_goodbye, zookeeper, session._client.client_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await lost.wait()
            return
    raise AssertionError("the session does not end")


def _say_goodbye(zookeeper: str, client_id: tuple[int, bytes]) -> None:
    impostor = KazooClient(zookeeper, client_id=client_id)
    impostor.start()
    impostor.stop()
    impostor.close()


async def eventually(condition: Callable[[], object], within: float = 60.0) -> None:
    """For what nobody signals. Fails with the condition's own assertion."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s"
        await asyncio.sleep(0.01)
