"""Leases in bulk for pipelines: taken, found again after a restart, deleted. Bodies stay the bytes that they are."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec
import structlog

from meantime.sdk.calls.call import Call, reading
from meantime.sdk.calls.leases import lease, lease_stream
from meantime.sdk.client import Client
from meantime.sdk.http.transport import StreamBroken
from meantime.sdk.reading import LineSplitter

SILENT_FOR = 3.0
"""Seconds. A returning consumer gets what it holds at once; after such a silence there is no more."""

log = structlog.get_logger(__name__)


class HeldLease(msgspec.Struct, frozen=True):
    """A lease as it comes over the wire; it ends at `at_ms`."""

    id: str
    version: int
    at_ms: int
    attempts: int = 1
    created_for_ms: int = 0
    producer_group: str | None = None
    body: msgspec.Raw = msgspec.Raw()
    body_b64: bytes | None = None


_line = msgspec.json.Decoder(HeldLease)


def take(
    client: Client, topic: str, consumer_id: str, *, limit: int, lease_for: float, wait_for: float = 0.0
) -> list[HeldLease]:
    """New leases on what is due."""
    call = lease(topic, consumer_id, limit=limit, lease_for=lease_for, wait_for=wait_for)
    return client.send(cast(Call[list[HeldLease]], replace(cast(Any, call), read=reading(list[HeldLease], "leases"))))


def held_leases(client: Client, topic: str, consumer_id: str, *, lease_for: float) -> list[HeldLease]:
    """What a consumer holds. With room for one lease a node adds at most one new one, which ends `lease_for` from now."""
    found: dict[str, HeldLease] = {}
    call = lease_stream(topic, consumer_id, buffer=1, lease_for=lease_for)
    try:
        with client.stream(call, silence_for=SILENT_FOR) as stream:
            _collect(stream.chunks, found)
    except StreamBroken:
        log.debug("held_leases_read", consumer_id=consumer_id, found=len(found))
    return list(found.values())


def _collect(chunks: Iterable[bytes], found: dict[str, HeldLease]) -> None:
    """Until the node is silent or sends a keep-alive. It sends one at the beginning too, which means nothing."""
    lines = LineSplitter()
    began = time.monotonic()
    for chunk in chunks:
        if not chunk.strip() and time.monotonic() - began > SILENT_FOR:
            return
        for text in lines.feed(chunk):
            one = _line.decode(text)
            found[one.id] = one


def delete(client: Client, topic: str, consumer_id: str, leases: Sequence[HeldLease]) -> list[str]:
    """The ids that could not be deleted, because their leases had run out."""
    outcomes = client.delete_leases(topic, consumer_id, leases) if leases else []
    late = [outcome.id for outcome in outcomes if outcome.status not in ("ok", "not_found")]
    if late:
        log.warning("leases_ran_out", topic=topic, consumer_id=consumer_id, messages=len(late))
    return late
