"""Applications and their queues: owners, positions and lag; pause, resume and reset while they run."""

from typing import Annotated, Any

import msgspec

from meantime.api.bodies import decoded
from meantime.api.call import HttpCall
from meantime.api.workers import positions
from meantime.errors import Invalid
from meantime.streams.reading.reader import Reading
from meantime.unknown_fields import misspelt
from meantime.workers.inspection import QueueState, WorkerState


class AppDocument(msgspec.Struct, frozen=True):
    name: str
    workers: int
    queues: int
    paused: bool


class AppsDocument(msgspec.Struct, frozen=True):
    apps: list[AppDocument]


class WorkerDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """`host` and `pid` are those of its process; a worker that does not say them has none."""

    worker: str
    queues: list[str]
    host: str | None = None
    pid: int | None = None


class WorkersDocument(msgspec.Struct, frozen=True):
    workers: list[WorkerDocument]


class QueueDocument(msgspec.Struct, frozen=True):
    """`lag` is how many messages are left to do; null where it is not known. `problem` says why a record is unreadable."""

    queue: str
    event_type: str
    partition: str
    owner: str | None
    last: str
    cursor: str
    lag: int | None
    paused: bool
    problem: str | None = None


class QueuesDocument(msgspec.Struct, frozen=True):
    queues: list[QueueDocument]


class ResetForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cursor of the queue's partition; `BEGIN` does everything again that is still there."""

    cursor: Annotated[str, msgspec.Meta(min_length=1)]


async def list_apps(call: HttpCall[None, None]) -> AppsDocument:
    """All applications"""
    found = await call.services.apps.apps()
    return AppsDocument([AppDocument(app.name, app.workers, app.queues, app.paused) for app in found])


async def show_app(call: HttpCall[None, None]) -> AppDocument:
    """One application"""
    app = await call.services.apps.app(call.names["app"])
    return AppDocument(app.name, app.workers, app.queues, app.paused)


async def forget_app(call: HttpCall[None, None]) -> None:
    """Forget an application that has no workers

    The positions of its queues are lost; 409 while there are workers.
    """
    await call.services.apps.forget(call.names["app"])


async def list_workers(call: HttpCall[None, None]) -> WorkersDocument:
    """The workers of an application, where they run and the queues of each"""
    return WorkersDocument([_worker(worker) for worker in await call.services.apps.workers(call.names["app"])])


async def list_queues(call: HttpCall[None, None]) -> QueuesDocument:
    """The queues of an application: owner, position, lag"""
    states = await call.services.apps.queues(call.names["app"])
    return QueuesDocument(await _documents(call.services.streams.reading, states))


async def show_queue(call: HttpCall[Any, None]) -> QueueDocument:
    """One queue"""
    state = await call.services.apps.queue(call.names["app"], call.names["queue"])
    (document,) = await _documents(call.services.streams.reading, [state])
    return document


async def reset_queue(call: HttpCall[bytes, None]) -> QueueDocument:
    """Move a queue to another cursor

    `{"cursor": "BEGIN"}` does everything again that is still there. Takes effect at once, also with a running owner.
    """
    app, queue, services = call.names["app"], call.names["queue"], call.services
    asked, reading = _reset(call.form), services.streams.reading
    source = await positions.source_of(services.streams, await services.apps.queue(app, queue))
    cursor = await positions.readable(reading, source, asked)
    call.act.detail = {"cursor": cursor, "event_type": source.event_type, "partition": source.partition}
    await services.apps.reset(app, queue, source, cursor, await positions.last_at(reading, source, cursor))
    return await show_queue(call)


async def pause_queue(call: HttpCall[None, None]) -> QueueDocument:
    """Pause a queue: no more messages are started"""
    await call.services.apps.pause_queue(call.names["app"], call.names["queue"], True)
    return await show_queue(call)


async def resume_queue(call: HttpCall[None, None]) -> QueueDocument:
    """Resume a paused queue"""
    await call.services.apps.pause_queue(call.names["app"], call.names["queue"], False)
    return await show_queue(call)


async def pause_app(call: HttpCall[None, None]) -> AppDocument:
    """Pause an application: no more messages are started"""
    await call.services.apps.pause_app(call.names["app"], True)
    return await show_app(call)


async def resume_app(call: HttpCall[None, None]) -> AppDocument:
    """Resume a paused application

    Queues that were paused by themselves stay so.
    """
    await call.services.apps.pause_app(call.names["app"], False)
    return await show_app(call)


def _worker(worker: WorkerState) -> WorkerDocument:
    if worker.process is None:
        return WorkerDocument(worker.name, worker.queues)
    return WorkerDocument(worker.name, worker.queues, worker.process.host, worker.process.pid)


def _reset(body: bytes) -> str:
    try:
        return msgspec.convert(decoded(body), ResetForm).cursor
    except msgspec.ValidationError as error:
        raise misspelt(error, ResetForm) or Invalid(
            f'say where to go on: {{"cursor": "BEGIN"}} or another cursor ({error})'
        ) from error


async def _documents(reading: Reading, states: list[QueueState]) -> list[QueueDocument]:
    known = await positions.lags(reading, states)
    return [
        QueueDocument(
            queue=state.queue,
            event_type=state.record.event_type,
            partition=state.record.partition,
            owner=state.owner,
            last=state.record.last,
            cursor=state.record.cursor,
            lag=known.get(state.queue),
            paused=state.paused,
            problem=state.problem,
        )
        for state in states
    ]
