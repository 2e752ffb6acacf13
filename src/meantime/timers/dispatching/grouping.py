"""Timers that are dealt with together."""

from collections.abc import Iterable, Iterator

from meantime.timers.dispatching.held_timers import HeldTimer

EVENTS_AT_ONCE = 1000


def by_share(timers: Iterable[HeldTimer]) -> dict[int, list[HeldTimer]]:
    shares: dict[int, list[HeldTimer]] = {}
    for held in timers:
        shares.setdefault(held.share, []).append(held)
    return shares


def by_event_type(timers: Iterable[HeldTimer]) -> Iterator[list[HeldTimer]]:
    """Those of one share that are published together: a share may go elsewhere, and what is published of it ends then."""
    kinds: dict[tuple[int, str], list[HeldTimer]] = {}
    for held in timers:
        kinds.setdefault((held.share, held.future.topic), []).append(held)
    for of_kind in kinds.values():
        for start in range(0, len(of_kind), EVENTS_AT_ONCE):
            yield of_kind[start : start + EVENTS_AT_ONCE]
