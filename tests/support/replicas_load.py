"""Users of a stack while its services fail: they publish, create and lease one by one, and remember what they were told."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import uuid4

import httpx
from topics_nodes import GROUP

Work = Callable[[httpx.Client, int], None]

LEASE_MS = 600_000
"""Longer than any test: whoever is given a message twice was given it while somebody held it."""


@dataclass(slots=True)
class Told:
    """What one capability has acknowledged: names and instants; and what it answers."""

    names: list[str] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)

    def acknowledge(self, *names: str) -> None:
        self.names += names
        self.at.append(time.monotonic())

    def longest_gap(self, since: float) -> float:
        times = [since, *(at for at in self.at if at > since)]
        return max((later - earlier for earlier, later in pairwise(times)), default=float("inf"))


class Load:
    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self.name = f"load.{uuid4().hex[:8]}"
        self.published, self.created, self.leased, self.finished = Told(), Told(), Told(), Told()
        with self._client(0) as http:
            made = http.post("/event-types", json={"name": self.name, "category": "undefined"})
            assert made.status_code == 201, made.text
            assert http.put(f"/topics/{self.name}", json={}).status_code == 201

    @contextmanager
    def running(self) -> Iterator[None]:
        """Publishers, producers and consumers on every node, until the block ends."""
        stop = threading.Event()
        works = (self._publish, self._create, self._lease)
        threads = [threading.Thread(target=self._repeat, args=(work, number, stop)) for work in works for number in (0, 1)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(90)
            assert not any(thread.is_alive() for thread in threads), "a caller was left without an answer"

    def _repeat(self, work: Work, number: int, stop: threading.Event) -> None:
        with self._client(number) as http:
            while not stop.is_set():
                with suppress(httpx.TransportError):
                    work(http, number)
                stop.wait(0.01)

    def _client(self, number: int) -> httpx.Client:
        return httpx.Client(base_url=self._urls[number % len(self._urls)], headers=GROUP, timeout=60.0, trust_env=False)

    def _publish(self, http: httpx.Client, _: int) -> None:
        name = uuid4().hex
        answer = http.post(f"/event-types/{self.name}/events", json=[{"name": name}])
        self.published.answers[answer.status_code] += 1
        if answer.status_code == 200:
            self.published.acknowledge(name)

    def _create(self, http: httpx.Client, _: int) -> None:
        name = uuid4().hex
        message = {"id": name, "after_ms": 0, "body": 1}
        answer = http.post(f"/topics/{self.name}/messages", json={"messages": [message]})
        self.created.answers[answer.status_code] += 1
        if answer.status_code == 201:
            self.created.acknowledge(name)

    def _lease(self, http: httpx.Client, number: int) -> None:
        mine = {"consumer_id": f"c{number}"}
        asked = {**mine, "limit": 10, "lease_ms": LEASE_MS, "wait_ms": 200}
        answer = http.post(f"/topics/{self.name}/leases", json=asked)
        self.leased.answers[answer.status_code] += 1
        if answer.status_code != 200 or not answer.json()["leases"]:
            return
        leases = answer.json()["leases"]
        self.leased.acknowledge(*(lease["id"] for lease in leases))
        held = [{"id": lease["id"], "version": lease["version"]} for lease in leases]
        done = http.post(f"/topics/{self.name}/leases/delete", json={**mine, "leases": held})
        if done.status_code == 200:
            self.finished.acknowledge(*(one["id"] for one in done.json()["results"] if one["status"] == "ok"))

    def check(self) -> None:
        """Nothing that was acknowledged is lost, and nothing was leased twice."""
        assert not set(self.published.names) - self._readable()
        assert not [name for name, times in Counter(self.leased.names).items() if times > 1]
        kept = set(self.created.names) - set(self.leased.names)
        with self._client(0) as http:
            lost = {name: status for name in kept if (status := self._look(http, name)) != 200}
            back = {name: status for name in self.finished.names if (status := self._look(http, name)) != 404}
        assert not lost, f"of {len(self.created.names)}"
        assert not back, f"of {len(self.finished.names)}"

    def _look(self, http: httpx.Client, name: str) -> int:
        """What is known of a message, as soon as it can be known: the database may just have moved again."""
        deadline = time.monotonic() + 60
        while (answer := http.get(f"/topics/{self.name}/messages/{name}")).status_code == 503:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.2)
        return answer.status_code

    def _readable(self) -> set[str]:
        """All events from the beginning, until those that must be there are, or there is nothing more for a while."""
        found: set[str] = set()
        wanted, empty = set(self.published.names), 0
        headers = {"X-Nakadi-Cursors": json.dumps([{"partition": "0", "offset": "BEGIN"}])}
        path = f"/event-types/{self.name}/events?batch_limit=500&batch_flush_timeout=1&stream_timeout=120"
        with self._client(1) as http, http.stream("GET", path, headers=headers) as answer:
            for line in answer.iter_lines():
                events = json.loads(line).get("events", ())
                found |= {event["name"] for event in events}
                empty = 0 if events else empty + 1
                if found >= wanted or empty == 10:
                    break
        return found
