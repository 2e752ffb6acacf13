"""Settings of the cluster view."""

import ssl
from dataclasses import dataclass, field

from meantime.cluster.health import Limits


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    limits: Limits = field(default_factory=Limits)
    ask_every: float = 0.5
    answer_within: float = 1.0
    seen_within: float = 2.0
    """Seconds since its last answer for which a node counts as in sight."""
    judge_every: float = 0.25
    record_every: float = 5.0
    """Seconds between writes of the own record when only the clock has moved."""
    tls: ssl.SSLContext | bool = True
    """How to verify the peers' certificates; a context may carry a client certificate."""
