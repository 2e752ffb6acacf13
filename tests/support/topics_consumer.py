"""A consumer of a push stream, as a test needs it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class PushConsumer:
    """What arrived, in order; `take` waits for so many leases."""

    http: httpx.AsyncClient
    topic: str
    consumer_id: str
    status: int
    leases: list[dict[str, Any]] = field(default_factory=list)
    blank_lines: int = 0
    ended: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, count: int, within: float = 25.0) -> list[dict[str, Any]]:
        """Remove and return the next `count` leases. The deadline is shorter than a lease, so
        that nothing comes only because one ran out."""
        async with asyncio.timeout(within):
            while len(self.leases) < count:
                self._news.clear()
                await self._news.wait()
        taken, self.leases = self.leases[:count], self.leases[count:]
        return taken

    async def delete(self, *leases: dict[str, Any], via: httpx.AsyncClient | None = None) -> list[str]:
        claims = [{"id": lease["id"], "version": lease["version"]} for lease in leases]
        answer = await (via or self.http).post(
            f"/topics/{self.topic}/leases/delete", json={"consumer_id": self.consumer_id, "leases": claims}
        )
        return [result["status"] for result in answer.json()["results"]]

    async def read(self, response: httpx.Response) -> None:
        async for line in response.aiter_lines():
            if line:
                self.leases.append(json.loads(line))
            else:
                self.blank_lines += 1
            self._news.set()
        self.ended = True


@asynccontextmanager
async def push(http: httpx.AsyncClient, topic: str, consumer_id: str, **query: int) -> AsyncIterator[PushConsumer]:
    params = {"consumer_id": consumer_id, **query}
    async with http.stream("GET", f"/topics/{topic}/leases", params=params) as response:
        consumer = PushConsumer(http, topic, consumer_id, response.status_code)
        reading = asyncio.create_task(consumer.read(response))
        try:
            yield consumer
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
