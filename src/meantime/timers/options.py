"""The part of the settings that timers go by."""

from collections.abc import Callable

from meantime.config import Config
from meantime.timers.model import Limits
from meantime.timers.timers import FindStorage, TimersOptions
from meantime.timers.topics import Topic, topics


def limits_of(config: Config) -> Limits:
    return Limits(config.timers_horizon, config.timers_max_callback_bytes)


def topics_of(config: Config) -> tuple[Topic, ...]:
    return topics(
        shares=config.timers_shares,
        request_partitions=config.timers_request_partitions,
        horizon_s=config.timers_horizon,
        max_request_bytes=limits_of(config).max_request_bytes,
    )


def timers_options(config: Config, storage: FindStorage, trusted: Callable[[], None]) -> TimersOptions:
    return TimersOptions(storage, limits_of(config), topics_of(config), trusted)
