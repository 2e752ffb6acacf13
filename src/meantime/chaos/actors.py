"""Those who use the system while it is being broken: publishers at full speed, readers that never stop, and a switcher.

They speak plain HTTP and know every node; when one does not answer they go to another, as a client with several addresses
would. What they hear goes into their histories.
"""

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import msgspec

from meantime.chaos.histories import EventMark, EventPartition, Published

TRANSPORT_TROUBLE = (httpx.HTTPError, OSError)


class ChaosPublisher:
    """Sends numbered events to one partition, one batch after the other."""

    def __init__(
        self,
        name: str,
        target: EventPartition,
        urls: Sequence[str],
        rng: random.Random,
        pause: float = 0.0,
        *,
        most: int = 40,
        answer_within: float = 60.0,
        noted: Callable[[], None] = lambda: None,
    ) -> None:
        """`most` events a batch; `noted` is called when events were acknowledged."""
        self.history = Published(target, name)
        self._most = most
        self._timeout = httpx.Timeout(answer_within, connect=2.0)
        self._noted = noted
        self.surprises: list[str] = []
        self._urls = itertools.cycle(rng.sample(urls, len(urls)))
        self._rng = rng
        self._pause = pause
        self._next = 0

    async def run(self, stop: asyncio.Event) -> None:
        async with httpx.AsyncClient(timeout=self._timeout, trust_env=False) as client:
            url = next(self._urls)
            while not stop.is_set():
                if not await self._publish(client, url):
                    url = next(self._urls)
                    await asyncio.sleep(0.05)
                await asyncio.sleep(self._pause)

    async def _publish(self, client: httpx.AsyncClient, url: str) -> bool:
        """Whether to stay with this node."""
        numbers = range(self._next, self._next + self._rng.randint(1, self._most))
        self._next = numbers.stop
        self.history.unanswered.update(numbers)
        target = self.history.target
        try:
            answer = await client.post(f"{url}/event-types/{target.event_type}/events", content=self._batch(numbers))
        except TRANSPORT_TROUBLE:
            return False
        self._note(numbers, answer)
        return answer.status_code in (200, 207)

    def _batch(self, numbers: range) -> bytes:
        partition = str(self.history.target.partition)
        who = self.history.publisher
        return msgspec.json.encode([{"p": who, "n": number, "metadata": {"partition": partition}} for number in numbers])

    def _note(self, numbers: range, answer: httpx.Response) -> None:
        written: list[int] = []
        if answer.status_code == 200:
            written = list(numbers)
        elif answer.status_code == 207:
            written = [
                number
                for number, item in zip(numbers, answer.json(), strict=True)
                if item["publishing_status"] == "submitted"
            ]
        elif answer.status_code != 503:
            self.surprises.append(surprise("publish", answer))
        if written:
            self._noted()
        self.history.acknowledged += written
        self.history.unanswered.difference_update(written)


class ChaosReader:
    """Reads every partition of an event type from the beginning, going on from its cursors wherever it was cut off."""

    def __init__(self, event_type: str, partitions: int, urls: Sequence[str], rng: random.Random) -> None:
        self.event_type = event_type
        self.read: dict[EventPartition, list[EventMark]] = defaultdict(list)
        self.surprises: list[str] = []
        self._cursors = {str(partition): "BEGIN" for partition in range(partitions)}
        self._urls = itertools.cycle(rng.sample(urls, len(urls)))

    @property
    def count(self) -> int:
        return sum(map(len, self.read.values()))

    async def run(self) -> None:
        async with httpx.AsyncClient(timeout=httpx.Timeout(None, connect=2.0, read=15.0)) as client:
            for url in self._urls:
                try:
                    await self._follow(client, url)
                except TRANSPORT_TROUBLE:
                    await asyncio.sleep(0.1)

    async def _follow(self, client: httpx.AsyncClient, url: str) -> None:
        cursors = [{"partition": partition, "offset": offset} for partition, offset in self._cursors.items()]
        path = f"{url}/event-types/{self.event_type}/events?batch_limit=100&batch_flush_timeout=1"
        headers = {"X-Nakadi-Cursors": msgspec.json.encode(cursors).decode()}
        async with client.stream("GET", path, headers=headers) as answer:
            if answer.status_code != 200:
                await self._refused(answer)
                return
            async for line in answer.aiter_lines():
                self._note(msgspec.json.decode(line))

    async def _refused(self, answer: httpx.Response) -> None:
        if answer.status_code != 503:
            await answer.aread()
            self.surprises.append(surprise("read", answer))
        await asyncio.sleep(0.2)

    def _note(self, line: dict[str, Any]) -> None:
        partition = line["cursor"]["partition"]
        marks = [EventMark(event["p"], event["n"]) for event in line.get("events", ())]
        self.read[EventPartition(self.event_type, int(partition))] += marks
        self._cursors[partition] = line["cursor"]["offset"]


def surprise(what: str, answer: httpx.Response) -> str:
    """An answer that no client should ever get, with what is needed to find it in the logs."""
    flow_id = answer.headers.get("X-Flow-Id")
    return f"{what} at {answer.url.netloc.decode()}: {answer.status_code} {answer.text[:200]} (flow {flow_id})"


async def switch(url: str, event_type: str, storage_id: str, key: str) -> tuple[int, str]:
    """Ask one node for a switch; 0 stands for no answer."""
    try:
        async with httpx.AsyncClient(timeout=httpx.Timeout(60.0, connect=2.0)) as client:
            answer = await client.post(
                f"{url}/event-types/{event_type}/timelines",
                json={"storage_id": storage_id},
                headers={"Idempotency-Key": key},
            )
    except TRANSPORT_TROUBLE as error:
        return 0, type(error).__name__
    return answer.status_code, answer.text
