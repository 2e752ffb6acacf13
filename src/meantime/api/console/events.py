"""`GET /console/events`: what happens now, as server-sent events."""

from typing import Any

import msgspec

from meantime.api.call import HttpCall
from meantime.api.streaming import EVENT_STREAM, LineStream

UNBUFFERED = {"X-Accel-Buffering": "no"}
"""For proxies that would collect what they pass on."""


class LiveNode(msgspec.Struct, frozen=True, kw_only=True):
    """`offset_ms`: how far its clock is ahead of cluster time; `version`: that of the timelines which it has reacted to."""

    url: str
    state: str
    reasons: list[dict[str, str]]
    release: str
    offset_ms: float | None = None
    version: int | None = None


class LiveRates(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last second, in the whole cluster. `fire`: callbacks of timers."""

    publish: float
    read: float
    create: float
    lease: float
    delete: float
    fire: float | None = None


class LiveEventType(msgspec.Struct, frozen=True, kw_only=True):
    """Events in a second."""

    publish: float | None = None
    read: float | None = None


class LiveTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in a second, and how many there are; large numbers are estimates."""

    create: float | None = None
    lease: float | None = None
    delete: float | None = None
    waiting: int | None = None
    processing: int | None = None
    available: int | None = None
    dead: int | None = None
    oldest_due_ms: int | None = None


class LiveApp(msgspec.Struct, frozen=True, kw_only=True):
    """`unowned`: queues that no worker has."""

    workers: int
    queues: int
    unowned: int
    paused: bool


class LiveLateness(msgspec.Struct, frozen=True, kw_only=True):
    """From the instant of a message to its lease, since the nodes began: how many were at most so late, and later than the
    bound before; the last are later than all."""

    bounds_ms: list[int]
    counts: list[int]


class LiveProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong now; `link` is a path below `/console`."""

    code: str
    severity: str
    title: str
    detail: str
    link: str


class LiveStateView(msgspec.Struct, frozen=True, kw_only=True):
    """What the event `snapshot` has, by names; what is not known is not there. `timers` are as in `GET /timers/status`."""

    now_ms: int
    node: str
    nodes: dict[str, LiveNode]
    rates: LiveRates
    event_types: dict[str, LiveEventType]
    topics: dict[str, LiveTopic]
    apps: dict[str, LiveApp]
    lateness: LiveLateness
    problems: dict[str, LiveProblem]
    timers: dict[str, Any] | None = None


async def follow(call: HttpCall[None, None]) -> LineStream:
    """What happens now, once a second

    Server-sent events: `snapshot` has the whole state; then `delta`, about once a second, has what has changed, as a JSON
    merge patch: objects are merged, null takes a field away. A viewer that does not keep up gets a snapshot again.
    """
    return LineStream(call.services.feed.join(), headers=UNBUFFERED, media_type=EVENT_STREAM)
