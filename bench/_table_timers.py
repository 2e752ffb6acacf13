"""A row of the table about timers: how late a callback can be read that was asked for shortly before its second."""

import random
import threading
import time
from uuid import uuid4

import httpx
from _streams_load import percentile
from _table_model import Stage, Values
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

LEAST_AHEAD, MOST_AHEAD = 0.05, 7.0


class Arrivals(threading.Thread):
    """When each callback could be read, by its token."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "bench", "isolation.level": "read_committed", "fetch.wait.max.ms": 50}
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.seen: dict[str, float] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                token = dict(message.headers() or ())["timer-token"]
                self.seen[(token or b"").decode()] = time.time()
        self._consumer.close()


def near(stage: Stage) -> Values:
    """Whole seconds, chosen at random; only those that were asked for 50 ms before their second, or earlier, count."""
    topic, servers = f"bench-{uuid4().hex[:8]}", stage.places.kafka[0]
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    arrivals, asked = Arrivals(servers, topic), dict[str, float]()
    arrivals.start()
    drawn = random.Random(7)
    with httpx.Client(base_url=stage.url, timeout=30, trust_env=False) as http:
        for _ in range(120 * max(1, stage.turns // 2)):
            now = time.time()
            at = int(now + drawn.uniform(LEAST_AHEAD, MOST_AHEAD)) + 1
            form = {"at": at, "callback_topic": topic, "callback": "x"}
            token = http.post("/timers", json=form).raise_for_status().json()["token"]
            if now + LEAST_AHEAD <= at:
                asked[token] = at
            time.sleep(drawn.uniform(0, 0.1))
    deadline = time.monotonic() + 30
    while len(arrivals.seen) < len(asked) and time.monotonic() < deadline:
        time.sleep(0.1)
    arrivals.over.set()
    arrivals.join()
    late = [(arrivals.seen[token] - at) * 1000 for token, at in asked.items() if token in arrivals.seen]
    assert len(late) == len(asked), f"{len(asked) - len(late)} timers did not come"
    assert min(late) >= 0, "a timer came early"
    return {"p50": percentile(late, 0.5), "p99": percentile(late, 0.99), "most": max(late)}
