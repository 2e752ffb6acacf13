"""What a node says of itself: liveness, readiness, peers, clock, metrics. Nobody may keep these answers for later."""

from typing import Annotated

import msgspec

from meantime import metrics
from meantime.api.call import Answer, HttpCall
from meantime.api.problems import MEDIA_TYPE, problem
from meantime.cluster.drift import KEPT_FOR
from meantime.cluster.view import ClusterView, NodeReport

NO_STORE = {"Cache-Control": "no-store"}


class Alive(msgspec.Struct, frozen=True):
    status: str


class DriftView(msgspec.Struct, frozen=True):
    """Where a clock was: how far ahead of cluster time."""

    at_ms: int
    offset_ms: float


class NodeView(NodeReport, frozen=True, kw_only=True):
    """`history`: the offsets of its clock in the last `history_s` seconds, as the node that was asked has measured them."""

    history: list[DriftView] | msgspec.UnsetType = msgspec.UNSET


class Nodes(msgspec.Struct, frozen=True):
    nodes: list[NodeView]


class NodesQuery(msgspec.Struct, forbid_unknown_fields=True):
    history_s: Annotated[
        int, msgspec.Meta(ge=0, le=KEPT_FOR, description="For so many seconds back, the offsets of the clocks.")
    ] = 0


ALIVE = Answer(200, Alive("alive"), headers=NO_STORE)


async def health(call: HttpCall[None, None]) -> Answer:
    """Liveness: is the process alive?"""
    return ALIVE


async def ready(call: HttpCall[None, None]) -> Answer:
    """Readiness: may this node be given work?

    200, or 503 with what is degraded and why.
    """
    readiness = call.services.cluster.readiness()
    if readiness.state == "healthy":
        return Answer(200, readiness, headers=NO_STORE)
    reasons = msgspec.to_builtins(readiness.reasons)
    detail = f"this node is {readiness.state}: " + "; ".join(reason.detail for reason in readiness.reasons)
    document = problem(503, detail, code=readiness.state, retryable=True, state=readiness.state, reasons=reasons)
    return Answer(503, document, headers=NO_STORE, media_type=MEDIA_TYPE, refusal=readiness.state)


async def nodes(call: HttpCall[None, NodesQuery]) -> Answer:
    """All nodes of the cluster and their state

    With `history_s` also how far the clock of each was from cluster time, second by second, as this node has measured it.
    """
    cluster, seconds = call.services.cluster, call.query.history_s
    views = [NodeView(**msgspec.structs.asdict(report)) for report in await cluster.nodes()]
    if seconds:
        since_ms = cluster.clock.now_ms() - seconds * 1000
        views = [msgspec.structs.replace(view, history=_history(cluster, view.id, since_ms)) for view in views]
    return Answer(200, Nodes(views), headers=NO_STORE)


def _history(cluster: ClusterView, node: str, since_ms: int) -> list[DriftView]:
    return [DriftView(at_ms, offset_ms) for at_ms, offset_ms in cluster.drift.of(node, since_ms)]


async def clock(call: HttpCall[None, None]) -> Answer:
    """Cluster time, and how far each peer's clock is from ours"""
    return Answer(200, call.services.cluster.clock_report(), headers=NO_STORE)


async def metrics_page(call: HttpCall[None, None]) -> Answer:
    """Metrics for Prometheus

    How deep topics are and how far readers lag is measured when this is called, at most every 5 s.
    """
    await call.services.measures.refresh()
    return Answer(200, metrics.render(), headers=NO_STORE, media_type=metrics.CONTENT_TYPE.encode())
