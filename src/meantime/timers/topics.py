"""The Kafka topics that timers live in, all on one storage (`timers_storage`).

timer-request   what clients ask for; kept as long as the horizon, so that all that is pending can be rebuilt from it
oscillator      the ticks: every second once
timer-due       buckets on their way to the dispatchers, partitioned by timer
timer-done      how timers ended, in one transaction with what they caused; partitioned as timer-due
timer-rejected  requests that were refused, unchanged, with the reason
"""

from dataclasses import dataclass
from types import MappingProxyType

OSCILLATOR = "oscillator"
REQUEST = "timer-request"
DUE = "timer-due"
DONE = "timer-done"
REJECTED = "timer-rejected"

RESERVED = frozenset({OSCILLATOR, REQUEST, DUE, DONE, REJECTED})
"""Topics that no callback may go to. One into `timer-request` would set another timer, with nobody's rights."""

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TimerTopic:
    name: str
    partitions: int
    settings: MappingProxyType[str, str]


def topics(*, shares: int, request_partitions: int, horizon_s: int, max_request_bytes: int) -> tuple[TimerTopic, ...]:
    """What is created where it is missing. Kafka's own clock stamps requests: whether a cancel came in time must not
    depend on the clock of the client."""
    roomy = {"max.message.bytes": str(max(1_048_588, max_request_bytes + 65_536))}
    asked = {"message.timestamp.type": "LogAppendTime", "retention.ms": str(horizon_s * 1000 + DAY_MS)}
    return (
        _topic(OSCILLATOR, 1, **{"retention.ms": str(DAY_MS)}),
        _topic(REQUEST, request_partitions, **asked, **roomy),
        _topic(DUE, shares, **{"retention.ms": str(7 * DAY_MS)}, **roomy),
        _topic(DONE, shares, **{"retention.ms": str(7 * DAY_MS)}),
        _topic(REJECTED, 1, **{"retention.ms": str(30 * DAY_MS)}, **roomy),
    )


def _topic(name: str, partitions: int, **settings: str) -> TimerTopic:
    return TimerTopic(name, partitions, MappingProxyType(settings))
