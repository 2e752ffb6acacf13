"""Calls about the cluster itself."""

from meantime.sdk.calls.call import Call, Response, nothing, path, reading
from meantime.sdk.model import ClockReading, Node


def nodes() -> Call[list[Node]]:
    """The nodes that are alive, with their state.

    >>> [node.state for node in client.nodes()]
    ['healthy', 'healthy', 'healthy']
    """
    return Call("GET", path("nodes"), reading(list[Node], "nodes"))


def clock() -> Call[ClockReading]:
    """The node's view of cluster time."""
    return Call("GET", path("clock"), reading(ClockReading))


def health() -> Call[None]:
    """Returns when a node answers; the quickest way to measure drift."""
    return Call("GET", path("health"), nothing)


def metrics() -> Call[str]:
    """The node's metrics, as Prometheus reads them."""
    return Call("GET", path("metrics"), _text)


def _text(answer: Response) -> str:
    return answer.content.decode("utf-8", "replace")
