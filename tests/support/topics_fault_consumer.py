"""A consumer that may be killed at any moment: works on leases in all the ways there are, and writes down what it does.

python topics_fault_consumer.py TOPIC CONSUMER_ID HISTORY SEED URL…
"""

import asyncio
import random
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
from topics_history import Event

LEASE_MS = 3000
BUFFER = 30
FLUSH_EVERY = 0.05


def now_ms() -> float:
    return time.time_ns() / 1e6


class Consumer:
    def __init__(self, topic: str, consumer_id: str, history: Path, seed: int, urls: list[str]) -> None:
        self._topic = topic
        self._consumer_id = consumer_id
        self._file = history.open("ab", buffering=0)
        self._random = random.Random(seed)
        self._urls = urls
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(5, read=15))
        self._working: set[asyncio.Task[None]] = set()
        self._done: list[dict[str, int]] = []

    async def run(self) -> None:
        self._keep(self._flush())
        while True:
            with suppress(httpx.HTTPError, msgspec.DecodeError):
                await self._follow(self._random.choice(self._urls))
            await asyncio.sleep(0.2)

    async def _follow(self, url: str) -> None:
        params = {"consumer_id": self._consumer_id, "buffer": BUFFER, "lease_ms": LEASE_MS}
        async with self._http.stream("GET", f"{url}/topics/{self._topic}/leases", params=params) as stream:
            if stream.status_code == 200:
                async for line in stream.aiter_lines():
                    if line:
                        self._take(msgspec.json.decode(line))

    def _take(self, lease: dict[str, int]) -> None:
        self._write("leased", lease, at_ms=lease["at_ms"], created_for_ms=lease["created_for_ms"], lease_ms=LEASE_MS)
        if self._random.random() < 0.7:
            self._done.append(lease)
        else:
            self._keep(self._work(lease))

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY)
            done, self._done = self._done, []
            if done:
                await self._operate("delete", done)

    async def _work(self, lease: dict[str, int]) -> None:
        chance = self._random.random()
        if chance < 0.15:
            await asyncio.sleep(LEASE_MS / 1000 + 0.05)  # too late on purpose
        elif chance < 0.5:
            await asyncio.sleep(self._random.random() / 5)
            lease = await self._change("extend", lease, self._random.randint(100, 2000))
            if self._random.random() < 0.3:
                await asyncio.sleep(self._random.random())
        elif chance < 0.7:
            await self._change("release", lease, self._random.randint(50, 500))
            return
        elif chance < 0.75:
            return  # forgotten: its lease will run out
        self._done.append(lease)

    async def _change(self, operation: str, lease: dict[str, int], after_ms: int) -> dict[str, int]:
        """The lease as it is afterwards, as far as this consumer knows."""
        (result,) = await self._operate(operation, [lease], int(now_ms()) + after_ms)
        return lease | {"version": result.get("version", lease["version"])}

    async def _operate(self, operation: str, leases: list[dict[str, int]], at_ms: int = 0) -> list[dict[str, Any]]:
        """One result per lease; empty ones when nobody answered."""
        for lease in leases:
            self._write("asked", lease, operation=operation, at_ms=at_ms)
        instant = {"at_ms": at_ms} if at_ms else {}
        claims = [{"id": lease["id"], "version": lease["version"]} | instant for lease in leases]
        path = f"/topics/{self._topic}/leases/{operation}"
        try:
            url = self._random.choice(self._urls)
            answer = await self._http.post(url + path, json={"consumer_id": self._consumer_id, "leases": claims})
            results = answer.json()["results"] if answer.status_code == 200 else []
        except (httpx.HTTPError, ValueError):
            results = []
        for lease, result in zip(leases, results, strict=False):
            self._write("answered", lease, operation=operation, status=result["status"], at_ms=result.get("at_ms", 0))
        return results or [{}] * len(leases)

    def _write(self, kind: str, lease: dict[str, int], **fields: object) -> None:
        event = Event(kind, lease["id"], now_ms(), self._consumer_id, lease["version"], **fields)  # type: ignore[arg-type]
        self._file.write(msgspec.json.encode(event) + b"\n")


if __name__ == "__main__":
    topic, consumer_id, history, seed, *urls = sys.argv[1:]
    asyncio.run(Consumer(topic, consumer_id, Path(history), int(seed), urls).run())
