"""Something to look at: event types with timelines, topics with a future, dead letters, timers. Names are of their own."""

from dataclasses import dataclass
from uuid import uuid4

import httpx

HOUR_MS = 3_600_000
BIG = 12345678901234567890


@dataclass(frozen=True, slots=True)
class Sample:
    http: httpx.Client
    id: str

    def name(self, of: str) -> str:
        return f"{of}-{self.id}"

    def now_ms(self) -> int:
        return int(self.http.get("/clock").json()["now_ms"])

    def event_type(self, of: str, partitions: int = 2, events: int = 0) -> str:
        name = self.name(of)
        parallelism = {"read_parallelism": partitions, "write_parallelism": partitions}
        statistic = {"messages_per_minute": 1, "message_size": 1, **parallelism}
        schema = {"type": "json_schema", "schema": '{"type": "object"}'}
        body = {"name": name, "owning_application": "shop", "category": "undefined", "schema": schema}
        _done(self.http.post("/event-types", json=body | {"default_statistic": statistic}))
        if events:
            _done(self.http.post(f"/event-types/{name}/events", json=[{"order": n, "total": n * 10} for n in range(events)]))
        return name

    def topic(self, of: str, **settings: object) -> str:
        name = self.name(of)
        _done(self.http.put(f"/topics/{name}", json=settings))
        return name

    def messages(self, topic: str, count: int, first_ms: int = HOUR_MS, step_ms: int = 60_000, prefix: str = "m") -> None:
        """`m-0`, `m-1`, …: the first after `first_ms`, then one every `step_ms`."""
        entries = [
            {"id": f"{prefix}-{n}", "after_ms": first_ms + n * step_ms, "body": {"n": n, "big": BIG}} for n in range(count)
        ]
        group = {"X-Producer-Group": "shop"}
        _done(self.http.post(f"/topics/{topic}/messages", json={"messages": entries}, headers=group))

    def dead_letters(self, of: str, count: int) -> tuple[str, str]:
        """A topic, and the one that its dead letters went to."""
        letters = self.topic(f"{of}.dead")
        topic = self.topic(of, max_attempts=1, dead_letter_topic=letters)
        self.messages(topic, count, first_ms=0, step_ms=0)
        taken = self.http.post(
            f"/topics/{topic}/leases", json={"consumer_id": "c", "limit": count, "wait_ms": 20_000}
        ).json()
        claims = [{"id": one["id"], "version": one["version"], "reason": "mailbox full"} for one in taken["leases"]]
        assert len(claims) == count
        _done(self.http.post(f"/topics/{topic}/leases/release", json={"consumer_id": "c", "leases": claims}))
        return topic, letters

    def subscription(self, event_type: str) -> str:
        body = {"owning_application": "billing", "event_types": [event_type], "read_from": "begin"}
        return str(_done(self.http.post("/subscriptions", json=body)).json()["id"])

    def schedule(self, of: str, topic: str, cron: str = "30 2 * * *") -> str:
        name = self.name(of)
        body = {"cron": cron, "time_zone": "Europe/Berlin", "target": {"topic": topic, "group": "shop"}, "body": {"n": 1}}
        _done(self.http.put(f"/schedules/{name}", json=body))
        return name

    def timer(self, event_type: str, after: int = 600) -> str:
        body = {"after": after, "callback_topic": f"event-type:{event_type}", "callback": {"n": 1}}
        return str(_done(self.http.post("/timers", json=body)).json()["token"])


def _done(answer: httpx.Response) -> httpx.Response:
    assert answer.is_success, answer.text
    return answer


def sample_on(url: str, **headers: str) -> Sample:
    return Sample(httpx.Client(base_url=url, timeout=60, headers=headers), uuid4().hex[:6])
