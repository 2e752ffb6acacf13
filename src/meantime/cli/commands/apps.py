"""`meantime apps`: workers, queues and lag of applications; pause, resume and reset them."""

import time
from typing import Annotated, Any

import msgspec
import typer

from meantime.cli.instants import clock_time
from meantime.cli.output import on_terminal, print_json, print_table, say
from meantime.cli.session import ClusterSession, Data, Json, Key, Url, Yes, confirm, on_cluster, open_session
from meantime.errors import NotFound

MOST_NAMED = 20

apps = typer.Typer(help="Applications: their workers and queues.")

AppName = Annotated[str, typer.Argument(metavar="APP", help="Name of the application.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Id of the queue, or EVENT_TYPE/PARTITION.")]


class AppView(msgspec.Struct, frozen=True):
    name: str
    workers: int = 0
    queues: int = 0
    paused: bool = False


class WorkerView(msgspec.Struct, frozen=True):
    worker: str
    queues: list[str] = []
    host: str | None = None
    pid: int | None = None


class QueueView(msgspec.Struct, frozen=True):
    queue: str
    event_type: str = ""
    partition: str = ""
    owner: str | None = None
    last: str = ""
    cursor: str = ""
    lag: int | None = None
    paused: bool = False
    problem: str | None = None


def add_to(root: typer.Typer) -> None:
    root.add_typer(apps, name="apps", rich_help_panel="Workers")


@apps.callback(invoke_without_command=True)
def list_if_alone(context: typer.Context, url: Url = None, key: Key = None, data: Data = None, json: Json = False) -> None:
    """List the applications; with a command, show or control one.

    Example: meantime apps
    """
    if context.invoked_subcommand is None:
        with open_session(url, key, data, json) as session:
            _list(session)


@apps.command("list")
@on_cluster
def list_all(session: ClusterSession) -> None:
    """List the applications.

    Example: meantime apps list --json
    """
    _list(session)


@apps.command()
@on_cluster
def show(
    session: ClusterSession,
    app: AppName,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Draw again every second until Ctrl-C.")] = False,
) -> None:
    """Show one application: its workers, and for each queue who owns it, how far it is and what is left.

    Example: meantime apps show shop --watch
    """
    if watch and on_terminal() and not session.json:
        _watch(session, app)
        return
    workers, queues = _workers(session, app), _queues(session, app)
    if session.json:
        print_json({"app": app, "workers": workers, "queues": queues})
        return
    print_table(["queue", "event type", "partition", "owner", "last", "cursor", "lag", "state"], map(_row, queues))
    rows = ([worker.worker, worker.host, worker.pid, len(worker.queues)] for worker in workers)
    print_table(["worker", "host", "pid", "queues"], rows)


@apps.command()
@on_cluster
def reset(
    session: ClusterSession,
    app: AppName,
    queue: QueueName,
    cursor: Annotated[str, typer.Argument(help="The queue goes on after this cursor; BEGIN does everything again.")],
    yes: Yes = False,
) -> None:
    """Move a queue to another position. Takes effect at once, also while its owner is at work.

    Example: meantime apps reset shop orders/3 BEGIN
    """
    id = _id(session, app, queue)
    confirm(f"Have {queue} of {app} go on after {cursor}?", yes)
    moved = _change(session, "PUT", "apps", app, "queues", id, "last", document={"cursor": cursor})
    left = "" if moved.get("lag") is None else f"; {moved['lag']} messages are left"
    print_json(moved) if session.json else say(f"{queue} of {app} goes on after {moved.get('cursor')}{left}")


@apps.command()
@on_cluster
def pause(
    session: ClusterSession,
    app: AppName,
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="One queue; else the whole application.")] = None,
) -> None:
    """Start no more messages of a queue, or of the application. What is in work is finished.

    Example: meantime apps pause shop orders/3
    """
    _switch(session, app, queue, "pause")


@apps.command()
@on_cluster
def resume(
    session: ClusterSession,
    app: AppName,
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="One queue; else the whole application.")] = None,
) -> None:
    """Go on with a paused queue or application.

    Example: meantime apps resume shop
    """
    _switch(session, app, queue, "resume")


@apps.command()
@on_cluster
def forget(session: ClusterSession, app: AppName, yes: Yes = False) -> None:
    """Remove an application that has no workers, with the positions of its queues.

    Example: meantime apps forget shop
    """
    from meantime.sdk.calls.call import Call, nothing, path

    confirm(f"Forget {app} and how far its queues are?", yes)
    session.client.send(Call("DELETE", path("apps", app), nothing))
    print_json({"forgotten": app}) if session.json else say(f"forgot {app}")


def _list(session: ClusterSession) -> None:
    from meantime.sdk.calls.call import Call, path, reading

    found = session.client.send(Call("GET", path("apps"), reading(list[AppView], "apps")))
    if session.json:
        print_json({"apps": found})
        return
    rows = ([app.name, app.workers, app.queues, _state(app)] for app in found)
    print_table(["app", "workers", "queues", "state"], rows)


def _state(app: AppView) -> str:
    return "paused" if app.paused else "running" if app.workers else "no workers"


def _workers(session: ClusterSession, app: str) -> list[WorkerView]:
    from meantime.sdk.calls.call import Call, path, reading

    return session.client.send(Call("GET", path("apps", app, "workers"), reading(list[WorkerView], "workers")))


def _queues(session: ClusterSession, app: str) -> list[QueueView]:
    from meantime.sdk.calls.call import Call, path, reading

    return session.client.send(Call("GET", path("apps", app, "queues"), reading(list[QueueView], "queues")))


def _change(session: ClusterSession, method: str, *parts: str, document: dict[str, str] | None = None) -> dict[str, Any]:
    from meantime.sdk.calls.call import JSON, Call, body, path, reading

    content = body(document) if document else None
    return session.client.send(Call(method, path(*parts), reading(dict[str, Any]), content, JSON if document else {}))


def _switch(session: ClusterSession, app: str, queue: str | None, verb: str) -> None:
    parts = ("apps", app) if queue is None else ("apps", app, "queues", _id(session, app, queue))
    changed = _change(session, "POST", *parts, verb)
    whole = app if queue is None else f"{queue} of {app}"
    print_json(changed) if session.json else say(f"{whole} is paused" if verb == "pause" else f"{whole} goes on")


def _id(session: ClusterSession, app: str, queue: str) -> str:
    """The id of a queue that is named by its event type and partition."""
    event_type, slash, partition = queue.rpartition("/")
    if not slash:
        return queue
    queues = _queues(session, app)
    for known in queues:
        if (known.event_type, known.partition) == (event_type, partition):
            return known.queue
    there = ", ".join(f"{known.event_type}/{known.partition}" for known in queues[:MOST_NAMED])
    more = f" and {len(queues) - MOST_NAMED} more" if len(queues) > MOST_NAMED else ""
    raise NotFound(f"{app} has no queue {queue!r}; " + (f"it has {there}{more}" if queues else "it has none at all"))


def _row(queue: QueueView) -> list[object]:
    state = queue.problem or ("paused" if queue.paused else "running" if queue.owner else "waiting for a worker")
    lag = "?" if queue.lag is None else queue.lag
    return [queue.queue, queue.event_type, queue.partition, queue.owner, _instant(queue.last), queue.cursor, lag, state]


def _instant(last: str | None) -> str:
    """The time of the last message that was done, which ZooKeeper has in a form of its own."""
    from meantime.workers.rules import instant_of

    at_ms = instant_of(last or "")
    return clock_time(at_ms) if at_ms is not None else last or ""


def _watch(session: ClusterSession, app: str) -> None:
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        while True:
            live.update(table(app, _workers(session, app), _queues(session, app)), refresh=True)
            time.sleep(1)


def table(app: str, workers: list[WorkerView], queues: list[QueueView]) -> Any:
    """The queues of an application by owner, each owner in a colour of its own."""
    from rich.table import Table
    from rich.text import Text

    colours = ("cyan", "magenta", "green", "yellow", "blue", "red")
    shades = {worker.worker: colours[place % len(colours)] for place, worker in enumerate(workers)}
    processes = {one.worker: f"{one.worker} ({one.host}, {one.pid})" for one in workers if one.pid}
    drawn = Table(
        box=None, pad_edge=False, header_style="bold", title=f"{app}: {len(workers)} workers", title_justify="left"
    )
    for column in ("owner", "event type", "partition", "cursor", "lag", "state"):
        drawn.add_column(column, no_wrap=True, justify="right" if column == "lag" else "left")
    for queue in queues:
        _, event_type, partition, owner, _, cursor, lag, state = _row(queue)
        style = shades.get(str(owner), "dim")
        drawn.add_row(
            Text(processes.get(str(owner), str(owner or "nobody")), style),
            str(event_type),
            str(partition),
            str(cursor),
            str(lag),
            str(state),
        )
    return drawn
