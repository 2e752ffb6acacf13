"""What the cluster view measures."""

from collections.abc import Mapping

from prometheus_client import Gauge

from meantime.cluster.clock import ClockEstimate, ClockSample
from meantime.cluster.health import HealthSigns, HealthVerdict, NodeState
from meantime.metrics import REGISTRY

CLOCK_OFFSET = Gauge(
    "meantime_clock_offset_seconds", "How far this node's clock is ahead of cluster time.", registry=REGISTRY
)
CLOCK_ERROR = Gauge("meantime_clock_error_seconds", "How wrong the measured offset may be.", registry=REGISTRY)
PEER_OFFSET = Gauge(
    "meantime_peer_clock_offset_seconds", "How far a peer's clock is ahead of this node's.", ["peer"], registry=REGISTRY
)
NODES_KNOWN = Gauge("meantime_nodes_known", "Nodes that ZooKeeper knows.", registry=REGISTRY)
NODES_SEEN = Gauge("meantime_nodes_seen", "Nodes that this one reaches, itself included.", registry=REGISTRY)
NODE_STATE = Gauge(
    "meantime_node_state", "1 for the state that this node is in, 0 for the others.", ["state"], registry=REGISTRY
)


def observe(estimate: ClockEstimate, samples: Mapping[str, ClockSample], signs: HealthSigns, verdict: HealthVerdict) -> None:
    CLOCK_OFFSET.set(estimate.offset_ms / 1000)
    CLOCK_ERROR.set(estimate.error_ms / 1000)
    PEER_OFFSET.clear()
    for peer, sample in samples.items():
        PEER_OFFSET.labels(peer).set((sample.offset_us - estimate.own_us) / 1e6)
    NODES_KNOWN.set(signs.nodes_known)
    NODES_SEEN.set(signs.nodes_seen)
    for state in NodeState:
        NODE_STATE.labels(state.name.lower()).set(state is verdict.state)
