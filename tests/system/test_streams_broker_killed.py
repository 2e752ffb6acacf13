"""A Kafka broker is killed and comes back: every node goes on with everything by itself."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from conftest import Breakable
from meantime.kafka.producer import DELIVER_FOR
from meantime.pipelines.event_types.source import EventsSource

pytestmark = [pytest.mark.lane("streams"), pytest.mark.takes(seconds=60), pytest.mark.timeout(300)]


class User:
    """A client of one node, and what it does with an event type."""

    def __init__(self, url: str, name: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=60.0, trust_env=False)
        self.url = url
        self.name = name

    def ask(self, method: str, path: str, **given: Any) -> Any:
        answer = self.http.request(method, path, **given)
        assert answer.is_success, f"{method} {path} on {self.url}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def publish(self, number: int) -> None:
        answer = self.http.post(f"/event-types/{self.name}/events", json=[{"n": number}])
        assert answer.status_code == 200, answer.text

    def look_at_cursors(self) -> None:
        path = f"/event-types/{self.name}"
        (part,) = self.ask("GET", f"{path}/partitions")
        self.ask("GET", f"{path}/partitions/0")
        oldest, newest = (
            {"partition": "0", "offset": part[which]} for which in ("oldest_available_offset", "newest_available_offset")
        )
        self.ask("POST", f"{path}/cursor-distances", json=[{"initial_cursor": oldest, "final_cursor": newest}])
        self.ask("POST", f"{path}/shifted-cursors", json=[oldest | {"shift": 1}])
        self.ask("POST", f"{path}/cursors-lag", json=[oldest])

    def read(self) -> list[int]:
        """From the beginning until there is nothing more."""
        headers = {"X-Nakadi-Cursors": json.dumps([{"partition": "0", "offset": "BEGIN"}])}
        path = f"/event-types/{self.name}/events?batch_limit=100&batch_flush_timeout=1&stream_timeout=60"
        return self._events(path, headers)

    def read_subscription(self) -> list[int]:
        wanted = {"owning_application": f"app-{uuid4().hex[:8]}", "event_types": [self.name], "read_from": "begin"}
        id = self.ask("POST", "/subscriptions", json=wanted)["id"]
        self.ask("GET", f"/subscriptions/{id}/stats")
        try:
            return self._events(f"/subscriptions/{id}/events?batch_limit=100&batch_flush_timeout=1&stream_timeout=60", {})
        finally:
            self.ask("DELETE", f"/subscriptions/{id}")

    def _events(self, path: str, headers: dict[str, str]) -> list[int]:
        found: list[int] = []
        with self.http.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200, f"{path} on {self.url}: {answer.read()!r}"
            for line in answer.iter_lines():
                events = json.loads(line).get("events", ())
                found += [event["n"] for event in events]
                if not events and found:
                    break
        return found

    def read_by_pipeline(self) -> list[int]:
        reader = EventsSource({"event_type": self.name, "url": self.url}).reader(None)  # type: ignore[arg-type]
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [json.loads(value)["n"] for batch in batches for value in batch.column("event").to_pylist()]

    def set_timer(self) -> None:
        timer = {"at": int(time.time()) + 3600, "callback_topic": f"event-type:{self.name}", "callback": {"n": -1}}
        self.ask("POST", "/timers", json={"timers": [timer]})

    def switch(self, storage_id: str) -> None:
        self.ask("POST", f"/event-types/{self.name}/timelines", json={"storage_id": storage_id})


def test_after_a_broker_was_killed_all_nodes_go_on_with_everything(breakable: Breakable) -> None:
    assert breakable.until_whole()
    users = []
    for url in breakable.urls[:2]:
        user = User(url, f"orders.{uuid4().hex[:8]}")
        user.ask("POST", "/event-types", json={"name": user.name, "category": "undefined"})
        users.append(user)
    for number, user in enumerate(users):
        user.publish(number)
        user.look_at_cursors()
        assert user.read() == [number]

    with publishers(users) as answers:
        time.sleep(0.5)
        killed = breakable.send("kafka-1")
        until_led(breakable.places.kafka[0], [user.name for user in users])
        assert breakable.pid("kafka-1") != killed
        for user in users:
            user.look_at_cursors()
            assert user.read()[0] == user.read_subscription()[0] == user.read_by_pipeline()[0] == users.index(user)
            user.set_timer()
            user.switch("kafka-2")
            user.switch("default")
    print(Counter(answer.status_code for answer in answers))
    # Where a broker needs longer to come back than a publish may take, publishers are told so, and not before.
    # The client library gives up a request as a whole when the oldest event in it has waited so long, and then says of all
    # events in it that they timed out, of younger ones too.
    early = [answer for answer in answers if answer.elapsed.total_seconds() < DELIVER_FOR - 1]
    given_up = len(early) < len(answers)
    refused = [answer for answer in early if answer.status_code not in (200, 503)]
    assert [one.text for one in refused if not (given_up and "Message timed out" in one.text)] == []
    assert {answer.status_code for answer in answers} <= {200, 503, 207}
    assert 200 in {answer.status_code for answer in answers}


@contextmanager
def publishers(users: list[User]) -> Iterator[list[httpx.Response]]:
    """Several for each node, one event after the other; what they were answered."""
    answers: list[httpx.Response] = []
    stop = threading.Event()

    def publish(user: User) -> None:
        with httpx.Client(base_url=user.url, timeout=60.0, trust_env=False) as http:
            while not stop.is_set():
                answer = http.post(f"/event-types/{user.name}/events", json=[{"n": 99}])
                answers.append(answer)

    threads = [threading.Thread(target=publish, args=(user,)) for user in users for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def until_led(servers: str, names: list[str]) -> None:
    """Return when all topics of these event types have a leader that answers."""
    deadline = time.monotonic() + 90
    while True:
        try:
            topics = AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=5).topics
            wanted = [topics[topic] for topic in topics if topic.startswith(tuple(names))]
            if len(wanted) == len(names) and all(part.leader >= 0 for topic in wanted for part in topic.partitions.values()):
                return
        except KafkaException:
            pass
        assert time.monotonic() < deadline, "the broker has not come back"
        time.sleep(0.2)
