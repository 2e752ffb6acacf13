"""The commands of the embedded stack: `up`, `down`, `status`."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from meantime.cli.input import one_or_three
from meantime.cli.output import print_json, print_table, say
from meantime.stack import control
from meantime.stack.discovery import data_path
from meantime.stack.folder import Folder
from meantime.stack.model import Event, StackOptions, Tell

Data = Annotated[Path | None, typer.Option("--data", help="Data directory; default $MEANTIME_DATA, else .meantime here.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel="Run")(up)
    app.command(rich_help_panel="Run")(down)
    app.command(rich_help_panel="Run")(status)


def up(
    nodes: Annotated[int | None, typer.Option(min=0, max=64, help="How many nodes; default as last time, else 1.")] = None,
    kafka: Annotated[
        int | None, typer.Option(min=1, max=8, help="How many Kafka clusters; default as last time, else 1.")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            callback=one_or_three,
            help="How many of each service: 1, or 3, of which one may fail; default as last time, else 1.",
        ),
    ] = None,
    durable: Annotated[
        bool | None,
        typer.Option(
            "--durable/--no-durable",
            help="Kafka writes to the disk before it acknowledges, should the machine lose power; default as last time.",
        ),
    ] = None,
    data: Data = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="HTTP port of the first node; default as last time, else 8080.")
    ] = None,
    auth: Annotated[
        bool | None,
        typer.Option("--auth/--no-auth", help="Ask for API keys, and make a first one; default as last time, else not."),
    ] = None,
    no_timers: Annotated[bool, typer.Option("--no-timers", help="Leave out the processes of timers.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when everything is ready.")] = False,
    json: Json = False,
) -> None:
    """Run the whole system on this machine: ZooKeeper, Kafka, PostgreSQL and nodes. Ctrl-C stops it.

    Ports and data are kept in the data directory, so the next start finds everything again.

    Example: meantime up --nodes 3 --kafka 2 --detach

    Example: meantime up --auth --detach

    Example: meantime up --replicas 3 --nodes 3
    """
    from meantime.stack.background import launch
    from meantime.stack.reports import reporter
    from meantime.stack.supervisor import serve

    folder = Folder(data_path(data))
    options = StackOptions(
        data=str(folder.path),
        nodes=nodes,
        kafka=kafka,
        replicas=replicas,
        durable=durable,
        port=port,
        auth=auth,
        timers=not no_timers,
        class_archives=True,
    )
    with reporter() as tell:
        if detach:
            launch(options, tell)
            _show(folder, json)
            _show_key(folder)
        else:
            serve(options, _announcing(folder, tell, json))


def down(data: Data = None, json: Json = False) -> None:
    """Stop the stack of a data directory, also what a killed supervisor left behind. Data stay.

    Example: meantime down --data /var/tmp/try
    """
    from meantime.stack.reports import reporter

    folder = Folder(data_path(data))
    with reporter() as tell:
        stopped = control.down(folder, tell)
    if json:
        print_json({"stopped": stopped, "data": str(folder.path)})
    else:
        typer.echo(f"the stack in {folder.path} has stopped" if stopped else f"nothing is running in {folder.path}")


def status(
    data: Data = None,
    json: Json = False,
    secrets: Annotated[bool, typer.Option("--secrets", help="With PostgreSQL's password and the first key.")] = False,
) -> None:
    """Show every address and process of a running stack, with replicas also who leads what; exit code 3 if there is none.

    The address of PostgreSQL names a file with its password, which programs on libpq read by themselves; for others there
    is --secrets.

    Example: meantime status --json
    """
    _show(Folder(data_path(data)), json, secrets)


def _announcing(folder: Folder, tell: Tell, json: bool) -> Tell:
    def both(event: Event) -> None:
        tell(event)
        if event.kind == "up":
            _show(folder, json)
            _show_key(folder)

    return both


def _show_key(folder: Folder) -> None:
    current = control.status(folder, secrets=True)
    if current.auth:
        say(f"first key, which may do everything: {current.key}\ncommands with this data directory use it by themselves")


def _show(folder: Folder, json: bool, secrets: bool = False) -> None:
    current = _with_leaders(control.status(folder, secrets=secrets), folder)
    if json:
        print_json(msgspec.to_builtins(current))
        return
    columns = ["process", "address", "pid", "state", "restarts", "log"]
    rows = [
        [process.name, process.address, str(process.pid or ""), process.state, process.restarts, process.log]
        for process in current.processes
    ]
    if current.leaders:
        columns.insert(2, "role")
        for row, process in zip(rows, current.processes, strict=True):
            row.insert(2, process.role)
    print_table(columns, rows)
    if current.console:
        say(f"console: {current.console}")


def _with_leaders(current: control.Status, folder: Folder) -> control.Status:
    if current.replicas == 1:
        return current
    from meantime.stack.leaders import leaders, role

    found = leaders(folder.read())
    if found is None:
        return current
    named = tuple(msgspec.structs.replace(process, role=role(process.name, found)) for process in current.processes)
    return msgspec.structs.replace(current, leaders=found, processes=named)
