"""What a failed or concluded switch may not leave behind: locks, unfinished switches, topics without a timeline."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx

from meantime.coordination.session import SessionOptions, open_session
from meantime.kafka.admin import Admin
from meantime.kafka.settings import Storage
from meantime.stack.model import Places

CLEAN_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    locks: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    orphan_topics: tuple[str, ...] = ()
    odd_version: int | None = None

    @property
    def none(self) -> bool:
        return self == Leftovers()

    def __str__(self) -> str:
        return (
            f"{len(self.locks)} locks, {len(self.unfinished)} unfinished switches, {len(self.orphan_topics)} orphan topics"
            + (f", odd version {self.odd_version}" if self.odd_version is not None else "")
        )


async def look_for_leftovers(places: Places, event_types: list[str], tell: Callable[[str], None]) -> Leftovers:
    """What is still there after duties had time to clean up."""
    deadline = time.monotonic() + CLEAN_WITHIN
    while not (found := await _look(places, event_types)).none and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(1.0)
    tell(f"left behind: {found}")
    return found


async def _look(places: Places, event_types: list[str]) -> Leftovers:
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(httpx.AsyncClient(base_url=places.nodes[0].url, timeout=10))
        session = await opened.enter_async_context(open_session(SessionOptions(places.zookeeper)))
        await asyncio.wait_for(session.wait_connected(), 20)
        version = int((await session.get(session.layout.version)).data)
        return Leftovers(
            locks=tuple(await session.children(session.layout.locked_event_types)),
            unfinished=tuple(await _unfinished(client, event_types)),
            orphan_topics=tuple(await _orphan_topics(client, places, event_types)),
            odd_version=version if version % 2 else None,
        )


async def _unfinished(client: httpx.AsyncClient, event_types: list[str]) -> list[str]:
    found: list[str] = []
    for name in event_types:
        switches = (await client.get(f"/event-types/{name}/switches")).json()
        found += [f"{name}/{one['id']}: {one['state']}" for one in switches if one["state"] not in ("done", "failed")]
    return found


async def _orphan_topics(client: httpx.AsyncClient, places: Places, event_types: list[str]) -> list[str]:
    wanted: set[str] = set()
    for name in event_types:
        wanted |= {timeline["topic"] for timeline in (await client.get(f"/event-types/{name}/timelines")).json()}
    there: set[str] = set()
    for number, servers in enumerate(places.kafka):
        there |= await Admin(Storage(f"cluster-{number}", servers)).topics()
    prefixes = tuple(f"{name}." for name in event_types)
    return sorted(topic for topic in there - wanted if topic.startswith(prefixes))
