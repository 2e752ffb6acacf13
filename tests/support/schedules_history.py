"""What users asked of schedules and what came out of a topic, as both recorded it, and whether it could have been right.

A version of a schedule holds from one instant to the next change. Each of its instants in between comes out once, with this
version; one of a later time only if the change told that it was too late to take it back. Nothing comes before its instant.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec


class Held(msgspec.Struct, frozen=True):
    """A version: its rhythm (0: paused) and since when it holds. `too_late` are instants of the version before it that could
    not be taken back; None when the answer was lost and nobody knows."""

    schedule: str
    version: int
    since_ms: int
    every_ms: int
    phase_ms: int = 0
    too_late: tuple[int, ...] | None = ()


class Came(msgspec.Struct, frozen=True):
    """A message that a consumer got, when by cluster time, and for the how manieth time."""

    schedule: str
    version: int
    at_ms: int
    now_ms: int
    attempts: int = 1


class Violation(msgspec.Struct, frozen=True):
    rule: str
    schedule: str
    at_ms: int
    detail: str = ""


def check(held: Iterable[Held], came: Sequence[Came], end_ms: int) -> list[Violation]:
    """`end_ms`: what was due until then must have come."""
    by_schedule: dict[str, list[Held]] = {}
    for one in held:
        by_schedule.setdefault(one.schedule, []).append(one)
    came_of: dict[str, list[Came]] = {}
    for message in came:
        came_of.setdefault(message.schedule, []).append(message)
    found = [*_early(came), *_doubled(came)]
    for schedule, versions in by_schedule.items():
        found += _judged(sorted(versions, key=lambda one: one.version), came_of.get(schedule, []), end_ms)
    return found


def due(held: Iterable[Held], end_ms: int) -> int:
    """How many instants were due."""
    by_schedule: dict[str, list[Held]] = {}
    for one in held:
        by_schedule.setdefault(one.schedule, []).append(one)
    return sum(len(_wanted(sorted(each, key=lambda one: one.version), end_ms)) for each in by_schedule.values())


def _early(came: Iterable[Came]) -> Iterator[Violation]:
    for one in came:
        if one.now_ms < one.at_ms:
            yield Violation("early", one.schedule, one.at_ms, f"at {one.now_ms}")


def _doubled(came: Iterable[Came]) -> Iterator[Violation]:
    """A message that was made again is new again."""
    new = Counter((one.schedule, one.at_ms) for one in came if one.attempts == 1)
    for (schedule, at_ms), count in new.items():
        if count > 1:
            yield Violation("twice", schedule, at_ms, f"{count} times")


def _wanted(versions: Sequence[Held], end_ms: int) -> dict[int, int]:
    """Each instant that was due, and the version that was to fire it."""
    wanted: dict[int, int] = {}
    for place, one in enumerate(versions):
        following = versions[place + 1] if place + 1 < len(versions) else None
        until_ms = min(end_ms, following.since_ms if following else end_ms)
        wanted |= dict.fromkeys(_instants(one, one.since_ms, until_ms), one.version)
    return wanted


def _judged(versions: Sequence[Held], came: Sequence[Came], end_ms: int) -> Iterator[Violation]:
    wanted = _wanted(versions, end_ms)
    seen = {one.at_ms: one.version for one in came}
    told = {(at_ms, one.version - 1) for one in versions for at_ms in one.too_late or ()}
    lost_answers = {one.version - 1: one.since_ms for one in versions if one.too_late is None}
    schedule = versions[0].schedule
    for at_ms, version in wanted.items():
        fired = seen.get(at_ms)
        if fired is None:
            yield Violation("lost", schedule, at_ms, f"of version {version}")
        elif fired != version and (at_ms, fired) not in told and fired not in lost_answers:
            yield Violation("older version", schedule, at_ms, f"{fired} instead of {version}")
    for at_ms, fired in seen.items():
        if at_ms not in wanted and at_ms <= end_ms and (at_ms, fired) not in told and fired not in lost_answers:
            yield Violation("not wanted", schedule, at_ms, f"of version {fired}")


def _instants(one: Held, after_ms: int, until_ms: int) -> range:
    if one.every_ms == 0:
        return range(0)
    first = ((after_ms - one.phase_ms) // one.every_ms + 1) * one.every_ms + one.phase_ms
    return range(first, until_ms + 1, one.every_ms)
