"""Routes about the node itself: liveness, readiness, peers, clock, metrics."""

from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import CacheControlHeader

from meantime import metrics
from meantime.api.dependencies import TheCluster
from meantime.api.problems import problem, respond
from meantime.cluster.view import ClockReport, NodeReport

NO_STORE = CacheControlHeader(no_store=True)


class Nodes(msgspec.Struct, frozen=True):
    nodes: list[NodeReport]


@get("/health", tags=["node"], summary="Liveness: is the process alive?", cache_control=NO_STORE)
async def health() -> dict[str, str]:
    return {"status": "alive"}


@get("/ready", tags=["node"], summary="Readiness: may this node be given work?", cache_control=NO_STORE)
async def ready(cluster: TheCluster) -> Response[Any]:
    """200, or 503 with what is degraded and why."""
    readiness = cluster.readiness()
    if readiness.state == "healthy":
        return Response(readiness)
    reasons = msgspec.to_builtins(readiness.reasons)
    detail = f"this node is {readiness.state}: " + "; ".join(reason.detail for reason in readiness.reasons)
    return respond(503, problem(503, detail, code=readiness.state, retryable=True, state=readiness.state, reasons=reasons))


@get("/nodes", tags=["node"], summary="All nodes of the cluster and their state", cache_control=NO_STORE)
async def nodes(cluster: TheCluster) -> Nodes:
    return Nodes(await cluster.nodes())


@get("/clock", tags=["node"], summary="Cluster time, and how far each peer's clock is from ours", cache_control=NO_STORE)
async def clock(cluster: TheCluster) -> ClockReport:
    return cluster.clock_report()


@get("/metrics", tags=["node"], summary="Metrics for Prometheus", media_type=metrics.CONTENT_TYPE, cache_control=NO_STORE)
async def metrics_page(request: Request[Any, Any, Any]) -> bytes:
    return metrics.render()


ROUTES = [health, ready, nodes, clock, metrics_page]
