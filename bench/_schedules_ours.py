"""Our side of the benchmark of schedules: two nodes, one of which leads; a consumer writes down each firing.

It is connected to the node that does not lead: what is measured is the death of a scheduler, not that of a connection.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from meantime import AsyncClient, Client
from meantime.stack.control import look
from meantime.stack.folder import Folder
from meantime.stack.model import Places

GROUP = "bench"
LEADING = "meantime_schedules_leading 1"


def leader(places: Places) -> str:
    """The node that leads, by its metrics; waited for, because a stack has just been started."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for node in places.nodes:
            with Client(node.url) as client:
                if LEADING in client.metrics():
                    return node.id
        time.sleep(0.5)
    raise RuntimeError("no node leads")


def pid_of(data: Path, process: str) -> int:
    return next(row.mark.pid for row in look(Folder(data)).alive if row.name == process and row.mark)


class Ours:
    name = "Meantime, two nodes"

    def __init__(self, data: Path, places: Places) -> None:
        self._data = data
        self._places = places
        leading = leader(places)
        self._urls = [node.url for node in sorted(places.nodes, key=lambda node: node.id == leading)]
        self._topic = "bench.kill"
        self._seen: list[tuple[str, int, float]] = []
        self._client = Client(self._urls, producer_group=GROUP)
        self._consumer = threading.Thread(target=self._consume, daemon=True)

    def start(self, schedules: int, every: int) -> None:
        self._client.create_topic(self._topic)
        for number in range(schedules):
            target = {"topic": self._topic, "group": GROUP}
            self._client.schedules.put(f"kill.{number}", every=every, target=target)
        self._consumer.start()

    def kill_scheduler(self) -> None:
        """kill -9; the supervisor of the stack starts its successor."""
        os.kill(pid_of(self._data, leader(self._places)), signal.SIGKILL)

    def firings(self) -> Iterator[tuple[str, int, float]]:
        yield from list(self._seen)

    def stop(self) -> None:
        for schedule in self._client.schedules.list(prefix="kill.", limit=1000):
            self._client.schedules.delete(schedule.id)
        self._client.close()

    def _consume(self) -> None:
        asyncio.run(self._follow())

    async def _follow(self) -> None:
        async with AsyncClient(self._urls, producer_group=GROUP) as client:
            async for lease in client.consume(self._topic, "bench", buffer=1000):
                ran, origin = time.time(), lease.message.schedule
                if origin is not None:
                    self._seen.append((origin.id, origin.at_ms // 1000, ran))
                await lease.delete()
