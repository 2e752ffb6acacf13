"""A process that takes part in the barrier and tells what it reacts to: `barrier_participant.py HOSTS NODE TIMEOUT`."""

import asyncio
import os
import sys

from meantime import logs
from meantime.coordination.barrier import open_barrier
from meantime.coordination.session import SessionOptions, open_session


async def take_part(hosts: str, node_id: str, timeout: float) -> None:
    async def react(version: int, locked: frozenset[str]) -> None:
        print(version, *sorted(locked), flush=True)

    async with open_session(SessionOptions(hosts, timeout=timeout)) as session, open_barrier(session, node_id, react):
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    logs.configure("warning", "console", node=sys.argv[2])
    asyncio.run(take_part(sys.argv[1], sys.argv[2], float(sys.argv[3])))
    os._exit(0)
