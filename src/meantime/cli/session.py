"""What every command about a cluster has in common: how it finds the cluster, its key and group, how it prints.

`@on_cluster` turns `def show(session: ClusterSession, name: ...)` into a command with the options --url, --key, --ca,
--insecure, --data and --json; the session is opened before the function runs and closed after it.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

if TYPE_CHECKING:
    from meantime.sdk.client import Client

P = ParamSpec("P")

PANEL = "Connection"

Url = Annotated[
    str | None,
    typer.Option("--url", help="Nodes, separated by commas; else MEANTIME_URL.", rich_help_panel=PANEL, metavar="URL"),
]
Key = Annotated[str | None, typer.Option("--key", help="API key; else MEANTIME_KEY.", rich_help_panel=PANEL, metavar="KEY")]
Ca = Annotated[
    str | None,
    typer.Option(
        "--ca",
        envvar="MEANTIME_CA",
        help="PEM file with the authorities that sign the nodes' certificates.",
        rich_help_panel=PANEL,
        metavar="FILE",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        envvar="MEANTIME_INSECURE",
        help="Send the key without TLS beyond this machine.",
        rich_help_panel=PANEL,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Data directory of a running stack; else MEANTIME_DATA.", rich_help_panel=PANEL),
]
Group = Annotated[
    str,
    typer.Option(
        "--group",
        "-g",
        envvar="MEANTIME_PRODUCER_GROUP",
        help="Producer group that owns the messages.",
        rich_help_panel=PANEL,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

COMMON: dict[str, tuple[Any, Any]] = {
    "url": (Url, None),
    "key": (Key, None),
    "ca": (Ca, None),
    "insecure": (Insecure, False),
    "data": (Data, None),
    "json": (Json, False),
}
PRODUCER = COMMON | {"group": (Group, "default")}


@dataclass(frozen=True, slots=True)
class ClusterSession:
    client: "Client"
    json: bool


@contextmanager
def open_session(
    url: str | None = None,
    key: str | None = None,
    data: Path | None = None,
    json: bool = False,
    group: str = "default",
    ca: str | None = None,
    insecure: bool | None = None,
) -> Iterator[ClusterSession]:
    from meantime.sdk.client import Client
    from meantime.sdk.retries import Retries
    from meantime.stack.discovery import discover

    found = discover(data)
    nodes = url or ",".join(found.urls)
    key, retries = key or found.key or (None if url else found.first_key), Retries(retry_for=4.0)
    with Client(nodes, key, producer_group=group, retries=retries, ca=ca, insecure=insecure) as client:
        yield ClusterSession(client, json)


def on_cluster(command: Callable[Concatenate[ClusterSession, P], None]) -> Callable[..., None]:
    """A command whose first parameter is the session."""
    return _with_session(command, COMMON)


def as_producer(command: Callable[Concatenate[ClusterSession, P], None]) -> Callable[..., None]:
    """A command that also says which producer group it speaks for."""
    return _with_session(command, PRODUCER)


def _with_session(command: Callable[..., None], options: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        given = {name: kwargs.pop(name) for name in options}
        with open_session(**given) as session:
            command(session, *args, **kwargs)

    own = list(inspect.signature(command).parameters.values())[1:]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]
    parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *common]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__dict__["__wrapped__"]
    return run


def known(kind: str) -> Callable[[str], list[str]]:
    """Completes the names of `event_types`, `topics` or `storages` of the cluster that the environment names."""

    def complete(incomplete: str) -> list[str]:
        try:
            with open_session() as session:
                found = getattr(session.client, kind)()
        except Exception:
            return []  # a shell that completes has no place for errors
        names = (getattr(item, "name", None) or item.id for item in found)
        return sorted(name for name in names if name.startswith(incomplete))

    return complete


EventTypeName = Annotated[
    str, typer.Argument(metavar="EVENT_TYPE", help="Name of the event type.", autocompletion=known("event_types"))
]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", autocompletion=known("topics"))]
StorageName = Annotated[str, typer.Argument(metavar="STORAGE", help="Id of the storage.", autocompletion=known("storages"))]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed. Without a terminal, --yes must have been given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Give --yes: there is no terminal to ask on.")
    typer.confirm(question, abort=True)
