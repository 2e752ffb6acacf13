"""What a user writes: an application and its jobs.

>>> from meantime import App, Retry
>>> app = App("sync")
>>> @app.job("orders", retry=Retry(attempts=5))
... async def ship(message, context):
...     print(message.event, message.cursor)

Started with `meantime worker run module:app`, in as many processes as you like: every message of every partition is handed
to one of them, in order. A periodic job runs at instants instead: each is handed to one of them.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args

import msgspec

from meantime.durations import Duration, in_seconds
from meantime.errors import Invalid
from meantime.names import check_event_type
from meantime.sdk.calls.schedules import Missed, OnGap, OnOverlap, Overlap, ScheduleDraft
from meantime.sdk.instants import Instant, unix_ms
from meantime.workers.layout import check_app
from meantime.workers.periodic import Periodic, given, name_of, schedule_id
from meantime.workers.rules import backoff, jittered, moment

OnError = Literal["retry", "block"]
NamedStart = Literal["begin", "end"]
Start = NamedStart | Instant
"""Where an application begins with an event type that is new to it."""
LATEST_MS = 253_402_300_799_999
Handler = TypeVar("Handler", bound=Callable[..., Any])


class PeriodicSettings(TypedDict, total=False):
    """How the schedule of a periodic job is treated, as in `client.schedules.put`."""

    phase: Duration
    on_gap: OnGap
    on_overlap: OnOverlap
    missed: Missed
    missed_within: Duration
    overlap: Overlap
    jitter: Duration
    starts_at: Instant
    ends_at: Instant
    max_firings: int


class StopWorker(Exception):
    """Raise it in a job to stop the worker. The message is not recorded as done: it comes again."""


class Message(msgspec.Struct, frozen=True):
    """What a job is given. `cursor` names its place in the partition, `written_at_ms` the instant when it was stored."""

    event: Any
    event_type: str
    partition: str
    cursor: str
    written_at_ms: int
    attempt: int = 1

    @property
    def written_at(self) -> datetime:
        return moment(self.written_at_ms)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a message is tried in all, and how long in between: `delay`, then `factor` times as long each time, give or
    take the fraction `jitter`. Durations are seconds, texts like `"90s"`, or timedeltas."""

    attempts: int = 5
    delay: Duration = 1.0
    factor: float = 2.0
    jitter: float = 0.1
    most: Duration = 3600.0
    """The longest delay."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise Invalid(f"Retry(attempts={self.attempts}): a message is tried at least once")
        if in_seconds(self.delay) < 0 or self.factor <= 0 or in_seconds(self.most) < 0 or not 0 <= self.jitter <= 1:
            raise Invalid("Retry: delay and most are not negative, factor is positive, jitter is between 0 and 1")

    def delay_after(self, attempt: int) -> float:
        """Seconds to wait when this attempt has failed, the first being 1."""
        return jittered(backoff(attempt, in_seconds(self.delay), self.factor, in_seconds(self.most)), self.jitter)


@dataclass(frozen=True, slots=True)
class Job:
    event_type: str
    handler: Callable[..., Any]
    retry: Retry | None = None
    time_limit: float | None = None
    on_error: OnError = "retry"
    batch: int | None = None
    checkpoint_every: int = 1
    start: NamedStart | int | None = None
    """An instant is Unix milliseconds; None is the beginning, because nobody has said otherwise."""
    periodic: Periodic | None = None
    """What feeds it, if that is no event type; `event_type` then is the source of its messages."""
    asynchronous: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.periodic is None:
            check_event_type(self.event_type)
        _check_options(self)
        _check_handler(self.handler, "messages" if self.batch else "message")
        object.__setattr__(self, "asynchronous", _is_async(self.handler))

    @property
    def name(self) -> str:
        return str(getattr(self.handler, "__qualname__", self.handler))

    @property
    def most(self) -> int:
        """How many messages are handed over at once."""
        return self.batch or 1

    def argument(self, messages: Sequence[Message]) -> Any:
        """What the handler is called with."""
        if self.periodic:
            return given(messages[0].event, messages[0].attempt)
        return list(messages) if self.batch else messages[0]


class App:
    """An application: a name, jobs by event type, periodic jobs, and a context that they share.

    `context` is a context manager, sync or async, or a function that makes one. It is entered once per process; what it
    gives is the second argument of every job.
    """

    def __init__(self, name: str, *, context: Any = None) -> None:
        self.name = check_app(name)
        self.context = context
        self._jobs: dict[str, Job] = {}
        self._periodic: dict[str, Job] = {}

    def __repr__(self) -> str:
        return f"App({self.name!r}, jobs for {', '.join(sorted(self._jobs | self._periodic)) or 'nothing yet'})"

    @property
    def jobs(self) -> Mapping[str, Job]:
        """By event type."""
        return MappingProxyType(self._jobs)

    @property
    def periodic_jobs(self) -> Mapping[str, Job]:
        """By the source of their messages, `schedule:<id>`."""
        return MappingProxyType(self._periodic)

    def job_for(self, source: str) -> Job | None:
        """The job for the messages of an event type, or of a schedule."""
        return self._jobs.get(source) or self._periodic.get(source)

    def job(
        self,
        event_type: str,
        *,
        retry: Retry | None = None,
        time_limit: Duration | None = None,
        on_error: OnError = "retry",
        batch: int | None = None,
        checkpoint_every: int = 1,
        start: Start | None = None,
    ) -> Callable[[Handler], Handler]:
        """Have a function called as `handle(message, context)` for every event of a type; it may be sync or async.

        `retry`: a message that fails comes back later, up to so many attempts; then, or at once without `retry`, it goes to
        the topic `<app>.dead`. `on_error="block"`: it is tried again in place and its queue waits, for strict order.
        `time_limit`: the time after which an attempt has failed. `batch`: hand over a list of up to so many messages that
        are there. `checkpoint_every`: record every so many messages instead of each one; after a crash, up to so many are
        repeated. `start`: where an application begins that has never worked on this event type: at the `"begin"` of what is
        stored (the default), at its `"end"`, or with what was written from an instant on (a `datetime`, RFC 3339 text or
        Unix seconds). One that has a position keeps it.
        """

        begin_at = _start(start)
        limit = None if time_limit is None else in_seconds(time_limit)

        def register(handler: Handler) -> Handler:
            if event_type in self._jobs:
                raise Invalid(f"{event_type!r} has a job in this application already: {self._jobs[event_type].name}")
            self._jobs[event_type] = Job(event_type, handler, retry, limit, on_error, batch, checkpoint_every, begin_at)
            return handler

        return register

    def periodic(
        self,
        cron: str | None = None,
        *,
        every: Duration | None = None,
        zone: str | None = None,
        name: str | None = None,
        retry: Retry | None = None,
        time_limit: Duration | None = None,
        **treatment: Unpack[PeriodicSettings],
    ) -> Callable[[Handler], Handler]:
        """Have a function called as `handle(message, context)` at instants: by `cron`, in the time zone `zone` (UTC if none
        is given), or `every` so often. Each instant is handed to one worker.

        The worker makes the schedule `<app>.<name>` when it starts; `name` is that of the function if none is given.
        `message` has `instant`, `schedule`, `firing` and `attempt`. `retry` and `time_limit` are those of `job`. All else is
        how the schedule is treated: `phase`, `on_gap`, `on_overlap`, `missed`, `missed_within`, `overlap`, `jitter`,
        `starts_at`, `ends_at`, `max_firings`.

        >>> @app.periodic("0 9 * * 1-5", zone="Europe/Berlin", retry=Retry(attempts=3))
        ... def report(message, context):
        ...     print("the report of", message.instant)
        """
        limit = None if time_limit is None else in_seconds(time_limit)
        draft = ScheduleDraft(cron=cron, every=every, time_zone=zone, **treatment)

        def register(handler: Handler) -> Handler:
            periodic = Periodic(schedule_id(self.name, name or name_of(handler)), draft)
            if periodic.source in self._periodic:
                raise Invalid(f"{periodic.schedule!r} has a job already: give this one another name with name=…")
            self._periodic[periodic.source] = Job(periodic.source, handler, retry, limit, periodic=periodic)
            return handler

        return register


def _start(given: Start | None) -> NamedStart | int | None:
    if given is None or given == "begin":
        return None if given is None else "begin"
    if given == "end":
        return "end"
    wrong = f"start is 'begin', 'end' or an instant like '2026-05-01T09:00:00Z', not {given!r}"
    if isinstance(given, bool) or not isinstance(given, str | datetime | int | float):
        raise Invalid(wrong)
    try:
        instant = unix_ms(given)
    except Invalid as error:
        raise Invalid(f"{wrong}: {error.detail}") from error
    except (ValueError, OverflowError) as error:
        raise Invalid(wrong) from error
    if not 0 <= instant <= LATEST_MS:
        raise Invalid(f"{wrong}; numbers are Unix seconds")
    return instant


def _check_options(job: Job) -> None:
    if job.on_error not in get_args(OnError):
        raise Invalid(f"on_error is 'retry' or 'block', not {job.on_error!r}")
    if job.retry is not None and not isinstance(job.retry, Retry):
        raise Invalid(f"retry is a Retry(...), not {job.retry!r}")
    if job.time_limit is not None and job.time_limit <= 0:
        raise Invalid("time_limit is a positive number of seconds, or None")
    if job.batch is not None and job.batch < 1:
        raise Invalid("batch is at least 1, or None for one message at a time")
    if job.checkpoint_every < 1:
        raise Invalid("checkpoint_every is at least 1")


def _check_handler(handler: Callable[..., Any], first: str) -> None:
    name = getattr(handler, "__qualname__", repr(handler))
    if not callable(handler):
        raise Invalid(f"a job is a function, not {handler!r}")
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise Invalid(f"the job {name}{signature} cannot be called as {name}({first}, context): {error}") from error


def _is_async(handler: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
