"""What a dispatcher goes by."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from meantime.timers.model import TimerLimits


@dataclass(frozen=True, slots=True)
class DispatcherOptions:
    shares: int
    lead_s: int = 5
    limits: TimerLimits = field(default_factory=TimerLimits)
    remember_ms: int = 60_000
    """How long what has ended is kept in memory."""
    most: int = 250_000
    """Most timers in one transaction."""
    near_s: int = 90
    """Timers due so soon are taken straight from their requests: they need not wait while the Spark job takes in a burst."""
    most_held_bytes: int = 768 * 1024 * 1024
    """With more than so much held, only those are that would miss their bucket otherwise."""
    longest_pause: float = 0.02
    """How long nothing is looked at while Kafka, the ledger or event types have yet to answer."""
    idle_pause: float = 0.2
    """The same while nothing is. A request that comes ends any pause."""
    look_back_ms: int = 600_000
    """How far back requests are read when nobody knows how far the Spark job has come."""
    adopted: Callable[[], Collection[str]] = frozenset
    """The topics that event types have adopted. They are nobody's callback topic, and their names do not tell."""
