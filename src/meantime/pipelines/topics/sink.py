"""Where checked messages are written: straight into PostgreSQL where it can be reached, else over the API.

Both are idempotent: an id that is there stays as it is and counts as `exists`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from meantime.pipelines.spark.broker import Broker, client_of
from meantime.pipelines.spark.options import TopicOptions
from meantime.pipelines.topics.model import Reject, Tally, TopicSink
from meantime.sdk import messages as wire
from meantime.sdk.client import Client
from meantime.topics.model import NewMessage, Settings, Topic


@contextmanager
def open_sink(options: TopicOptions, now_ms: int) -> Iterator[TopicSink]:
    if options.postgres:
        from meantime.pipelines.topics.postgres import open_postgres_sink

        with open_postgres_sink(options.postgres, options.topic, now_ms) as sink:
            yield sink
    else:
        with client_of(options.broker) as client:
            yield _HttpSink(client, options.topic)


def write_all(sink: TopicSink, messages: Sequence[NewMessage]) -> Tally:
    """In chunks; of rows with the same id the first one counts."""
    distinct: dict[str, NewMessage] = {}
    for message in messages:
        distinct.setdefault(message.id, message)
    rows = list(distinct.values())
    total = Tally(exists=len(messages) - len(rows))
    for start in range(0, len(rows), sink.chunk):
        total += sink.write(rows[start : start + sink.chunk])
    return total


class _HttpSink:
    chunk = 10_000

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.refused: list[Reject] = []

    def write(self, messages: Sequence[NewMessage]) -> Tally:
        results = self._client.schedule_prepared(self._topic, [_on_the_wire(message) for message in messages])
        created = sum(result.status == "created" for result in results)
        exists = sum(result.status == "exists" for result in results)
        for message, result in zip(messages, results, strict=True):
            if result.status not in ("created", "exists"):
                self.refused.append(_refused(message, result.error))
        return Tally(created, exists, len(results) - created - exists)


def _refused(message: NewMessage, error: str | None) -> Reject:
    """What a node refuses although the checks here have passed it: its topic was changed meanwhile."""
    row = msgspec.json.decode(msgspec.json.encode(_on_the_wire(message)), type=dict[str, Any])
    return Reject(f"message {message.id}", row, error or "refused by the node")


def _on_the_wire(message: NewMessage) -> wire.NewMessage:
    if message.is_json:
        return wire.NewMessage(message.id, message.at_ms, body=msgspec.Raw(message.body))
    return wire.NewMessage(message.id, message.at_ms, body_b64=message.body)


def topic_and_now(broker: Broker, name: str) -> tuple[Topic, int]:
    """The topic's rules as the API shows them, and cluster time."""
    with client_of(broker) as client:
        found = client.topic(name)
        settings = {field: getattr(found, field) for field in Settings.__struct_fields__}
        given = {field: value for field, value in settings.items() if value is not None}
        return Topic(0, name, 0, Settings(**given)), client.clock().now_ms
