"""The part of the configuration that timers go by."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from meantime.config import Config
from meantime.kafka.settings import Storage
from meantime.timers.model import TimerLimits
from meantime.timers.topics import TimerTopic, topics


@dataclass(frozen=True, slots=True)
class TimersOptions:
    """`storage` waits until it is known where timers live; `trusted` raises when this node's clock may be wrong; `adopted`
    are the Kafka topics that event types have adopted, which are nobody's callback topic."""

    storage: Callable[[], Awaitable[Storage]]
    limits: TimerLimits
    topics: tuple[TimerTopic, ...]
    trusted: Callable[[], None]
    adopted: Callable[[], Collection[str]] = frozenset


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
) -> TimersOptions:
    return TimersOptions(storage, limits_of(config), topics_of(config), trusted, adopted)
