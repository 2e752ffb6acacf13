"""The load to come: topics and timers slot by slot, with what schedules will add, beside rates of the past and the capacity
that consumers have shown.

The future comes from the API; past rates are counted in the archive, by the hour; a topic's capacity is the rate that its
consumers have reached, as nodes measure it, unless one is given.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from meantime.errors import Invalid, NotFound
from meantime.pipelines.spark.places import Place, address_of, found, readable
from meantime.sdk.client import Client
from meantime.sdk.messages import Slot

TIMERS = "timers"
MOST_SLOTS = 10_000
_RATE = re.compile(r'^meantime_topics_lease_rate\{topic="([^"]+)"\} ([0-9.eE+-]+)$', re.MULTILINE)


class Series(msgspec.Struct, frozen=True):
    """`counts` by slot; `capacity` is per second, None where nobody has shown any."""

    name: str
    counts: list[int]
    capacity: float | None = None


class OverloadedSlot(msgspec.Struct, frozen=True):
    """A slot in which more becomes due than consumers can take."""

    name: str
    from_ms: int
    due: int
    capacity: int


class Past(msgspec.Struct, frozen=True):
    """An event type in the archive: events per second over its hours, and in its busiest one."""

    event_type: str
    hours: int
    events: int
    mean: float
    peak: float


class Forecast(msgspec.Struct, frozen=True):
    from_ms: int
    step_ms: int
    series: list[Series]
    past: list[Past]
    warnings: list[OverloadedSlot]


def forecast(
    client: Client, topics: Sequence[str], span: tuple[float, float, float], capacity: float | None, archive: Place | None
) -> Forecast:
    """`span` is begin, length and step in seconds; without topics, all topics and the timers."""
    begin, ahead, step = span
    if not 0 < step <= ahead or ahead / step > MOST_SLOTS:
        raise Invalid(f"--step must be shorter than --for, and make at most {MOST_SLOTS:,} slots of it", option="step")
    names = list(topics) or [topic.name for topic in client.topics()]
    shown = rates(client.metrics())
    found = [Series(name, _load(client, name, begin, ahead, step), capacity or shown.get(name)) for name in names]
    if not topics:
        found += _timers(client, begin, ahead, step, capacity)
    past = list(_past(archive)) if archive else []
    from_ms, step_ms = round(begin * 1000), round(step * 1000)
    return Forecast(from_ms, step_ms, found, past, list(warnings(found, from_ms, step_ms)))


def rates(metrics: str) -> dict[str, float]:
    """What the consumers of each topic finish per second, by a node's metrics."""
    return {name: float(rate) for name, rate in _RATE.findall(metrics) if float(rate) > 0}


def warnings(series: Sequence[Series], from_ms: int, step_ms: int) -> Iterator[OverloadedSlot]:
    """Slots whose load, with what was left over from the slots before, is more than can be done in them."""
    for one in series:
        if one.capacity is None:
            continue
        per_slot = one.capacity * step_ms / 1000
        backlog = 0.0
        for index, count in enumerate(one.counts):
            backlog = max(0.0, backlog + count - per_slot)
            if backlog > 0:
                yield OverloadedSlot(one.name, from_ms + index * step_ms, count, int(per_slot))


def _load(client: Client, name: str, begin: float, ahead: float, step: float) -> list[int]:
    return [slot.total for slot in client.load(name, begin, begin + ahead, step)]


def _timers(client: Client, begin: float, ahead: float, step: float, capacity: float | None) -> list[Series]:
    """Timers know whole seconds; a cluster that runs without them has none."""
    if step < 1:
        return []
    try:
        slots = client.timer_load(begin, begin + ahead, step)
    except NotFound:
        return []
    return [Series(TIMERS, [slot.total for slot in slots], capacity)]


def _past(archive: Place) -> Iterator[Past]:
    from pyarrow import parquet

    if not archive.is_dir():
        raise Invalid(f"--archive: there is no archive in {address_of(archive)}", option="archive")
    for folder in found(archive, "event_type=*"):
        hours: dict[str, int] = {}
        for file in found(folder, "date=*/hour=*/*.parquet"):
            hour = f"{file.parent.parent.name}/{file.parent.name}"
            hours[hour] = hours.get(hour, 0) + parquet.read_metadata(readable(file)).num_rows
        yield past_of(folder.name.partition("=")[2], hours)


def past_of(event_type: str, hours: Mapping[str, int]) -> Past:
    """The mean is over all hours from the first to the last, silent ones too."""
    if not hours:
        return Past(event_type, 0, 0, 0.0, 0.0)
    first, last = (datetime.strptime(hour, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC) for hour in (min(hours), max(hours)))
    length = round((last - first).total_seconds() / 3600) + 1
    total = sum(hours.values())
    return Past(event_type, length, total, total / length / 3600, max(hours.values()) / 3600)


def with_planned(present: Sequence[Slot], new: Mapping[int, int], step_ms: int) -> list[Slot]:
    """The load that a table would make: slots whose `available` is what is there and whose `waiting` is new. `new` is by
    instants, which are finer than the slots."""
    if not present:
        return []
    begin = present[0].from_ms
    added: dict[int, int] = {}
    for from_ms, count in new.items():
        index = max(0, (from_ms - begin) // step_ms)
        added[index] = added.get(index, 0) + count
    return [
        Slot(from_ms=slot.from_ms, waiting=added.get(index, 0), available=slot.total) for index, slot in enumerate(present)
    ]
