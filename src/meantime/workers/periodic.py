"""Periodic jobs: what feeds them, and what they are given.

A periodic job is fed by the schedule `<app>.<name>`, which fires into the topic `<app>.periodic`. Inside a worker a firing
is a message like any other, of the source `schedule:<id>` (no event type has a colon in its name) and at the place of its
instant. So its retries and dead letters are those of all jobs: one id per firing and attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from meantime.errors import Invalid
from meantime.names import check_identifier
from meantime.sdk.calls.schedules import ScheduleDraft
from meantime.workers.rules import moment

SOURCE = "schedule:"
TEMPLATE: Mapping[str, str] = {"firing": "{{firing}}"}
"""The body of a firing; which schedule and which instant it is of, the message says itself."""


@dataclass(frozen=True, slots=True)
class PeriodicMessage:
    """What a periodic job is given: the schedule, the instant it is for, the number of the firing, and the attempt."""

    schedule: str
    version: int
    instant_ms: int
    firing: int
    attempt: int = 1

    @property
    def instant(self) -> datetime:
        """The instant that the calendar says, in UTC; jitter and lateness do not change it."""
        return moment(self.instant_ms)


class FiringBody(msgspec.Struct, frozen=True):
    """What the template makes."""

    firing: int = 0


class FiringEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A firing as it stands in retries and dead letters."""

    schedule: str
    version: int
    at_ms: int
    firing: int = 0

    @property
    def source(self) -> str:
        return source_of(self.schedule)


@dataclass(frozen=True, slots=True)
class Periodic:
    """When a periodic job runs: the id of its schedule, and what that is made of."""

    schedule: str
    draft: ScheduleDraft

    def __post_init__(self) -> None:
        check_identifier(self.schedule, "id of a schedule")
        self.draft.document()

    @property
    def source(self) -> str:
        return source_of(self.schedule)


def periodic_topic(app: str) -> str:
    return f"{app}.periodic"


def schedule_id(app: str, name: str) -> str:
    return f"{app}.{name}"


def source_of(schedule: str) -> str:
    """What stands in the place of an event type for the firings of a schedule."""
    return f"{SOURCE}{schedule}"


def given(event: Any, attempt: int) -> PeriodicMessage:
    """What the job gets of a firing."""
    firing = msgspec.convert(event, FiringEvent)
    return PeriodicMessage(firing.schedule, firing.version, firing.at_ms, firing.firing, attempt)


def name_of(handler: Any) -> str:
    """The name that a function has by itself, as part of a schedule's id."""
    name = str(getattr(handler, "__name__", ""))
    if not name.isidentifier():
        raise Invalid(f"{handler!r} has no name that a schedule could have: give it one with name=…")
    return name
