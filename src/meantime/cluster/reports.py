"""What a node tells about itself and its peers; the shapes of `/nodes`, `/clock` and `/ready`."""

import msgspec

from meantime.coordination.membership import Reason


class NodeReport(msgspec.Struct, frozen=True):
    """One line of `GET /nodes`. `clock_offset_ms`: how far its clock is ahead of cluster time."""

    id: str
    url: str
    state: str
    reasons: tuple[Reason, ...]
    clock_offset_ms: float | None
    timelines_version: int | None
    release: str


class PeerReport(msgspec.Struct, frozen=True):
    """`offset_ms`: how far the peer's clock is ahead of this node's."""

    id: str
    offset_ms: float
    rtt_ms: float


class ClockReport(msgspec.Struct, frozen=True):
    """`now_ms` is cluster time, `offset_ms` how far this node's clock is ahead of it, `error_ms` how wrong that may be;
    `received_us` and `sent_us` are this node's own clock, for peers that measure it."""

    now_ms: int
    offset_ms: float
    error_ms: float
    peers: tuple[PeerReport, ...]
    received_us: int
    sent_us: int


class Readiness(msgspec.Struct, frozen=True):
    state: str
    reasons: tuple[Reason, ...]
