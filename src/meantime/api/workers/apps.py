"""Applications and their queues: owners, positions and lag; pause, resume and reset while they run."""

import msgspec
from litestar import delete, get, post, put
from litestar.params import FromPath

from meantime.api.dependencies import TheApps, TheReading, TheStreams
from meantime.api.identity import AnyRequest, allow
from meantime.api.workers import positions
from meantime.errors import Invalid, Malformed
from meantime.streams.reading.reader import Reading
from meantime.workers.inspection import Apps, QueueState


class AppDocument(msgspec.Struct, frozen=True):
    name: str
    workers: int
    queues: int
    paused: bool


class AppsDocument(msgspec.Struct, frozen=True):
    apps: list[AppDocument]


class WorkerDocument(msgspec.Struct, frozen=True):
    worker: str
    queues: list[str]


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


class Reset(msgspec.Struct, frozen=True):
    cursor: str | None = None


@get("/apps", tags=["apps"], summary="All applications")
async def list_apps(request: AnyRequest, apps: TheApps) -> AppsDocument:
    allow(request, "apps")
    found = await apps.apps()
    return AppsDocument([AppDocument(app.name, app.workers, app.queues, app.paused) for app in found])


@get("/apps/{app:str}", tags=["apps"], summary="One application")
async def show_app(request: AnyRequest, apps: TheApps, app: FromPath[str]) -> AppDocument:
    allow(request, "apps")
    return await _app(apps, app)


@delete("/apps/{app:str}", tags=["apps"], summary="Forget an application that has no workers")
async def forget_app(request: AnyRequest, apps: TheApps, app: FromPath[str]) -> None:
    """The positions of its queues are lost; 409 while there are workers."""
    allow(request, "apps")
    await apps.forget(app)


@get("/apps/{app:str}/workers", tags=["apps"], summary="The workers of an application and the queues of each")
async def list_workers(request: AnyRequest, apps: TheApps, app: FromPath[str]) -> WorkersDocument:
    allow(request, "apps")
    found = await apps.workers(app)
    return WorkersDocument([WorkerDocument(worker, queues) for worker, queues in sorted(found.items())])


@get("/apps/{app:str}/queues", tags=["apps"], summary="The queues of an application: owner, position, lag")
async def list_queues(request: AnyRequest, apps: TheApps, reading: TheReading, app: FromPath[str]) -> QueuesDocument:
    allow(request, "apps")
    return QueuesDocument(await _documents(reading, await apps.queues(app)))


@get("/apps/{app:str}/queues/{queue:str}", tags=["apps"], summary="One queue")
async def show_queue(
    request: AnyRequest, apps: TheApps, reading: TheReading, app: FromPath[str], queue: FromPath[str]
) -> QueueDocument:
    allow(request, "apps")
    return await _queue(apps, reading, app, queue)


@put("/apps/{app:str}/queues/{queue:str}/last", tags=["apps"], summary="Move a queue to another cursor")
async def reset_queue(
    request: AnyRequest,
    apps: TheApps,
    reading: TheReading,
    streams: TheStreams,
    app: FromPath[str],
    queue: FromPath[str],
) -> QueueDocument:
    """`{"cursor": "BEGIN"}` does everything again that is still there. Takes effect at once, also with a running owner."""
    allow(request, "apps")
    asked = _reset(await request.body())
    state = await apps.queue(app, queue)
    source = await positions.source_of(streams, state)
    cursor = await positions.readable(reading, source, asked)
    await apps.reset(app, queue, source, cursor, await positions.last_at(reading, source, cursor))
    return await _queue(apps, reading, app, queue)


@post(
    "/apps/{app:str}/queues/{queue:str}/pause",
    tags=["apps"],
    summary="Pause a queue: no more messages are started",
    status_code=200,
)
async def pause_queue(
    request: AnyRequest, apps: TheApps, reading: TheReading, app: FromPath[str], queue: FromPath[str]
) -> QueueDocument:
    allow(request, "apps")
    await apps.pause_queue(app, queue, True)
    return await _queue(apps, reading, app, queue)


@post("/apps/{app:str}/queues/{queue:str}/resume", tags=["apps"], summary="Resume a paused queue", status_code=200)
async def resume_queue(
    request: AnyRequest, apps: TheApps, reading: TheReading, app: FromPath[str], queue: FromPath[str]
) -> QueueDocument:
    allow(request, "apps")
    await apps.pause_queue(app, queue, False)
    return await _queue(apps, reading, app, queue)


@post("/apps/{app:str}/pause", tags=["apps"], summary="Pause an application: no more messages are started", status_code=200)
async def pause_app(request: AnyRequest, apps: TheApps, app: FromPath[str]) -> AppDocument:
    allow(request, "apps")
    await apps.pause_app(app, True)
    return await _app(apps, app)


@post("/apps/{app:str}/resume", tags=["apps"], summary="Resume a paused application", status_code=200)
async def resume_app(request: AnyRequest, apps: TheApps, app: FromPath[str]) -> AppDocument:
    """Queues that were paused by themselves stay so."""
    allow(request, "apps")
    await apps.pause_app(app, False)
    return await _app(apps, app)


def _reset(body: bytes) -> str:
    try:
        reset = msgspec.json.decode(body, type=Reset)
    except msgspec.ValidationError as error:
        raise Invalid(f'say where to go on: {{"cursor": "BEGIN"}} or another cursor ({error})') from error
    except msgspec.DecodeError as error:
        raise Malformed(f"not JSON: {error}") from error
    if not reset.cursor:
        raise Invalid('say where to go on: {"cursor": "BEGIN"} or another cursor')
    return reset.cursor


async def _app(apps: Apps, name: str) -> AppDocument:
    app = await apps.app(name)
    return AppDocument(app.name, app.workers, app.queues, app.paused)


async def _queue(apps: Apps, reading: Reading, app: str, queue: str) -> QueueDocument:
    (document,) = await _documents(reading, [await apps.queue(app, queue)])
    return document


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


ROUTES = [
    list_apps,
    show_app,
    forget_app,
    list_workers,
    list_queues,
    show_queue,
    reset_queue,
    pause_queue,
    resume_queue,
    pause_app,
    resume_app,
]
