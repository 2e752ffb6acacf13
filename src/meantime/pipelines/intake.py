"""What becomes of a request on its way into the join. Pure.

A request is judged from outside and turned at once into the record that will leave the query, for `timer-due` or for
`timer-rejected`; what waits in between is that record, for the tick that lets it go.
"""

from dataclasses import dataclass, field

from meantime.pipelines.packing import REFUSED, Outgoing
from meantime.timers.model import Limits, Record
from meantime.timers.rules import outside, share_of


@dataclass(frozen=True, slots=True)
class FuturesOptions:
    kafka: str
    checkpoint: str
    shares: int
    """Partitions of `timer-due`."""
    limits: Limits = field(default_factory=Limits)
    shards: int = 4
    batch_every: float = 2.5
    max_requests: int = 250_000
    """Most requests in one micro-batch."""
    tick_every_s: int = 5
    """Of the oscillator's ticks one in so many is joined; a request that is late waits for the next of them."""
    stretch_s: int = 30
    """Seconds that are handed out at once, a multiple of `tick_every_s`."""
    early_s: int = 20
    """How long before its first second a stretch is handed out, a multiple as well."""
    remember_ticks_s: int = 65
    """More than the lead, by as much as clocks may differ."""
    started_ms: int = 0
    """Where ticks are read from when there is no checkpoint."""
    behind_s: int = 0
    """How far the clock of this machine is behind the oscillator's."""


def upcoming(now_s: float, options: FuturesOptions) -> int:
    """The first tick that cannot have been yet."""
    now = int(now_s) + options.behind_s
    return now - now % options.tick_every_s + options.tick_every_s


def taken_in(record: Record, next_tick: int, options: FuturesOptions) -> tuple[int, Outgoing]:
    """The tick that a request meets, and what goes out then."""
    token, second, cancelling, reason = outside(record, options.limits)
    if second is None or reason is not None:
        given = (*record.headers, ("reason", (reason or "").encode()))
        return next_tick, Outgoing(REFUSED, record.key, record.value, given)
    handed_out = second - second % options.stretch_s - options.early_s
    name = "cancel" if cancelling else "token"
    headers = ((name, token.encode()), ("requested", b"%d" % record.timestamp_ms))
    return max(handed_out, next_tick), Outgoing._make((share_of(token, options.shares), record.key, record.value, headers))
