"""The messages of a producer group, page by page over the API, with their bodies as they were given."""

from collections.abc import Iterator

import httpx
import msgspec

from meantime.errors import Unreachable
from meantime.pipelines.spark.options import TopicOptions
from meantime.topics.model import MessageStage, Position

PAGE = 1000


class _Shown(msgspec.Struct):
    id: str
    at_ms: int
    status: str
    version: int
    created_for_ms: int
    producer_group: str
    bucket_id: int
    attempts: int
    lock_consumer_id: str | None = None
    body: msgspec.Raw = msgspec.Raw()
    body_b64: bytes | None = None


class _Page(msgspec.Struct):
    messages: list[_Shown]


def owned(settings: TopicOptions) -> Iterator[tuple[Position, bool, bytes]]:
    broker = settings.broker
    headers = {"X-Producer-Group": broker.producer_group}
    if broker.key:
        headers["Authorization"] = f"Bearer {broker.key}"
    with httpx.Client(base_url=broker.url.split(",")[0], headers=headers, timeout=60.0) as client:
        after = ""
        while page := _page(client, settings.topic, after):
            yield from map(_row, page)
            after = page[-1].id


def _page(client: httpx.Client, topic: str, after: str) -> list[_Shown]:
    query: dict[str, str | int] = {"limit": PAGE} | ({"after": after} if after else {})
    answer = client.get(f"/topics/{topic}/messages", params=query)
    if answer.status_code != httpx.codes.OK:
        raise Unreachable(f"cannot read topic {topic!r}: {answer.text[:500]}")
    return msgspec.json.decode(answer.content, type=_Page).messages


def _row(shown: _Shown) -> tuple[Position, bool, bytes]:
    stage = MessageStage.DEAD if shown.status == "dead" else MessageStage.OPEN
    position = Position(
        shown.id,
        shown.at_ms,
        stage,
        shown.version,
        shown.attempts,
        shown.bucket_id,
        shown.producer_group,
        shown.lock_consumer_id,
        shown.created_for_ms,
    )
    is_json = shown.body_b64 is None
    return position, is_json, bytes(shown.body) if is_json else shown.body_b64 or b""
