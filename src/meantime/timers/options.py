"""The part of the configuration that timers go by."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from meantime.config import Config
from meantime.errors import MeantimeError
from meantime.kafka.settings import Storage
from meantime.timers.model import NewTimer, TimerLimits
from meantime.timers.topics import TimerTopic, topics


class CallbackFault(NamedTuple):
    """What is wrong with a timer's callback, and which of the timers it is."""

    place: int
    error: MeantimeError


EventCheck = Callable[[str, Sequence[NewTimer]], Awaitable[CallbackFault | None]]
"""The first of these timers whose callback this event type would not take, as far as that can be known."""


async def unchecked(event_type: str, timers: Sequence[NewTimer]) -> CallbackFault | None:
    """For those who know no event types."""
    return None


@dataclass(frozen=True, slots=True)
class TimersOptions:
    """`storage` waits until it is known where timers live; `trusted` raises when this node's clock may be wrong; `adopted`
    are the Kafka topics that event types have adopted, which are nobody's callback topic; `events` judges callbacks into
    event types."""

    storage: Callable[[], Awaitable[Storage]]
    limits: TimerLimits
    topics: tuple[TimerTopic, ...]
    trusted: Callable[[], None]
    adopted: Callable[[], Collection[str]] = frozenset
    events: EventCheck = unchecked


def limits_of(config: Config) -> TimerLimits:
    return TimerLimits(config.timers_horizon, config.timers_max_callback_bytes)


def topics_of(config: Config) -> tuple[TimerTopic, ...]:
    return topics(
        shares=config.timers_shares,
        request_partitions=config.timers_request_partitions,
        horizon_s=config.timers_horizon,
        max_request_bytes=limits_of(config).max_request_bytes,
    )


def timers_options(
    config: Config,
    storage: Callable[[], Awaitable[Storage]],
    trusted: Callable[[], None],
    adopted: Callable[[], Collection[str]],
    events: EventCheck,
) -> TimersOptions:
    return TimersOptions(storage, limits_of(config), topics_of(config), trusted, adopted, events)
