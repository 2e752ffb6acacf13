"""What a node says of itself: liveness, readiness, peers, clock, metrics. Nobody may keep these answers for later."""

import msgspec

from meantime import metrics
from meantime.api.call import Answer, HttpCall
from meantime.api.problems import MEDIA_TYPE, problem
from meantime.cluster.view import NodeReport

NO_STORE = {"Cache-Control": "no-store"}


class Alive(msgspec.Struct, frozen=True):
    status: str


class Nodes(msgspec.Struct, frozen=True):
    nodes: list[NodeReport]


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
    return Answer(503, document, headers=NO_STORE, media_type=MEDIA_TYPE)


async def nodes(call: HttpCall[None, None]) -> Answer:
    """All nodes of the cluster and their state"""
    return Answer(200, Nodes(await call.services.cluster.nodes()), headers=NO_STORE)


async def clock(call: HttpCall[None, None]) -> Answer:
    """Cluster time, and how far each peer's clock is from ours"""
    return Answer(200, call.services.cluster.clock_report(), headers=NO_STORE)


async def metrics_page(call: HttpCall[None, None]) -> Answer:
    """Metrics for Prometheus"""
    return Answer(200, metrics.render(), headers=NO_STORE, media_type=metrics.CONTENT_TYPE.encode())
