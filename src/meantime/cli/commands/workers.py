"""`meantime worker run`: be a worker of an application."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from meantime.cli.commands import apps
from meantime.cli.session import PANEL, Ca, Data, Insecure, Key, Url

worker = typer.Typer(no_args_is_help=True, help="Workers: run the jobs of an application.")

ZooKeeper = Annotated[
    str | None,
    typer.Option("--zookeeper", help="host:port/root; else MEANTIME_ZOOKEEPER.", rich_help_panel=PANEL, metavar="HOSTS"),
]


def register(root: typer.Typer) -> None:
    root.add_typer(worker, name="worker", rich_help_panel="Workers")
    apps.add_to(root)


@worker.callback()
def about() -> None:
    """Workers: run the jobs of an application."""


@worker.command()
def run(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where the application is, as in shop.jobs:app.")],
    url: Url = None,
    key: Key = None,
    ca: Ca = None,
    insecure: Insecure = False,
    data: Data = None,
    zookeeper: ZooKeeper = None,
    zookeeper_auth: Annotated[
        str, typer.Option(envvar="MEANTIME_ZOOKEEPER_AUTH", help="user:password for ZooKeeper.", rich_help_panel=PANEL)
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            envvar="MEANTIME_APPS_NAMESPACE",
            help="Where applications live in ZooKeeper: a path, or a name below the root.",
            rich_help_panel=PANEL,
        ),
    ] = "apps",
    session_timeout: Annotated[
        float,
        typer.Option(envvar="MEANTIME_WORKER_SESSION_TIMEOUT", help="Seconds after which a silent worker loses its queues."),
    ] = 10.0,
    settle: Annotated[
        float,
        typer.Option(
            envvar="MEANTIME_WORKER_SETTLE", help="Seconds to wait for more workers before queues are assigned again."
        ),
    ] = 1.0,
    threads: Annotated[
        int,
        typer.Option(
            envvar="MEANTIME_WORKER_THREADS", min=1, help="Most jobs at once that are plain functions (not async)."
        ),
    ] = 64,
    metrics_port: Annotated[
        int | None, typer.Option(envvar="MEANTIME_WORKER_METRICS_PORT", help="Serve metrics for Prometheus on this port.")
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a file changes; for development.")] = False,
    log_level: Annotated[str, typer.Option(envvar="MEANTIME_LOG_LEVEL", help="debug, info, warning or error.")] = "info",
    log_format: Annotated[
        str | None, typer.Option(envvar="MEANTIME_LOG_FORMAT", help="json, or console for people.")
    ] = None,
) -> None:
    """Run the jobs of an application in this process, until SIGTERM or Ctrl-C.

    Start as many as you like, on any machine: the queues are shared among them. A worker that has to stop finishes
    the messages in work and gives its queues to the others.

    Example: meantime worker run shop.jobs:app

    Example: meantime worker run shop.jobs:app --reload
    """
    if reload:
        from meantime.cli.reloading import run_reloading

        raise typer.Exit(run_reloading([argument for argument in sys.argv[1:] if argument != "--reload"], Path.cwd()))

    import uvloop

    from meantime import logs
    from meantime.stack.discovery import discover
    from meantime.workers.runner import WorkerOptions, run_worker
    from meantime.workers.target import load

    logs.configure(log_level, log_format or ("console" if sys.stderr.isatty() else "json"))
    app = load(target, Path.cwd())
    found = discover(data)
    options = WorkerOptions(
        urls=(url,) if url else found.urls,
        zookeeper=zookeeper or found.zookeeper,
        key=key or found.key,
        namespace=namespace,
        session_timeout=session_timeout,
        settle_for=settle,
        threads=threads,
        metrics_port=metrics_port,
        digest=zookeeper_auth,
        ca=ca,
        insecure=insecure,
    )
    uvloop.run(run_worker(app, options))
