"""A whole stack with the processes of timers: requests in, callbacks and events out, processes killed and stopped."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from uuid import uuid4

import httpx
import msgspec
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from meantime.timers.future import encode
from meantime.timers.model import Future
from meantime.timers.topics import REQUEST


class Site:
    def __init__(self, stack) -> None:
        self.stack = stack
        self.kafka = stack.places.kafka[0]
        self.http = httpx.Client(base_url=stack.urls[0], timeout=60, trust_env=False)
        self.producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 5, "acks": "all"})

    def new_topic(self) -> str:
        name = f"calls-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.kafka})
        admin.create_topics([NewTopic(name, 4, 1)])[name].result()
        return name

    def request(self, second: int, topic: str, token: str) -> None:
        value = encode(Future(topic, token, token.encode()))
        while True:
            try:
                self.producer.produce(REQUEST, value, str(second), headers=[("token", token.encode())])
                return
            except BufferError:
                self.producer.poll(0.05)

    def cancel(self, second: int, token: str, in_time: set[str]) -> None:
        """Adds the token to `in_time` when Kafka says that it had the cancel a second before."""

        def heard(error, message: Message) -> None:
            if error is None and message.timestamp()[1] <= second * 1000 - 1000:
                in_time.add(token)

        self.producer.produce(REQUEST, None, str(second), headers=[("cancel", token.encode())], on_delivery=heard)

    def kill(self, name: str) -> None:
        print("killing", name)
        self.stack.send(name, signal.SIGKILL)

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """A process and those that it has started stand still meanwhile."""
        pids = family(self.stack.pid(name))
        print("stopping", name, pids)
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def leader(self) -> str:
        return self.http.get("/timers/status").json()["oscillator"]["leader"]

    def ledger(self) -> dict[str, int]:
        return self.http.get("/timers/status").json()["ledger"]

    def ends(self, topic: str) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": uuid4().hex})
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number), 20)[1] for number in partitions}
        consumer.close()
        return ends

    def all_of(self, topic: str, count: int, within: float) -> list[Message]:
        """Everything that readers of committed records see, until there is enough and nothing more comes for a while."""
        settings = {"group.id": uuid4().hex, "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.kafka, **settings})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
        found: list[Message] = []
        deadline = time.monotonic() + within
        quiet_since = time.monotonic()
        while time.monotonic() < deadline and (len(found) < count or time.monotonic() - quiet_since < 5):
            more = [message for message in consumer.consume(5000, 0.5) if message.error() is None]
            found += more
            quiet_since = time.monotonic() if more else quiet_since
        consumer.close()
        return found


def _signal(pids: list[int], number: signal.Signals) -> None:
    """To those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def family(pid: int) -> list[int]:
    """A process and all that it has started, directly or not."""
    return [pid, *chain.from_iterable(map(family, _children(pid)))]


def _children(pid: int) -> Iterator[int]:
    # A process may end while it is looked at, and a thread of it as well.
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield from map(int, (task / "children").read_text().split())


def token_of(message: Message) -> str:
    return dict(message.headers())["timer-token"].decode()


def lateness_of(message: Message) -> int:
    return message.timestamp()[1] - int(dict(message.headers())["timer-due"]) * 1000


def new_event_type(site: Site) -> str:
    name = f"orders-{uuid4().hex[:6]}"
    declared = site.http.post(
        "/event-types",
        json={
            "name": name,
            "owning_application": "tests",
            "category": "business",
            "schema": {"type": "json_schema", "schema": '{"additionalProperties": true}'},
            "default_statistic": {"read_parallelism": 2, "write_parallelism": 2},
        },
    )
    assert declared.status_code == 201, declared.text
    return name


def switch(site: Site, name: str) -> None:
    other = next(s["id"] for s in site.http.get("/storages").json() if not s["default"])
    switched = site.http.post(f"/event-types/{name}/timelines", json={"storage_id": other})
    assert switched.status_code == 201, switched.text


def events_of(site: Site, name: str, count: int, within: float) -> list[dict]:
    """All events from the beginning, until there is enough and nothing more comes for a while."""
    cursors = [{"partition": str(partition), "offset": "BEGIN"} for partition in range(2)]
    deadline = time.monotonic() + within
    events: list[dict] = []
    while time.monotonic() < deadline and len(events) < count:
        answer = site.http.get(
            f"/event-types/{name}/events",
            params={"batch_limit": 500, "batch_flush_timeout": 1, "stream_timeout": 10},
            headers={"X-Nakadi-Cursors": msgspec.json.encode(cursors).decode()},
        )
        assert answer.status_code == 200, answer.text
        batches = [msgspec.json.decode(line) for line in answer.text.splitlines() if line]
        events = [event for batch in batches for event in batch.get("events") or ()]
    return events
