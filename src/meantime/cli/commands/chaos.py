"""`chaos`: the fault suite. Everything runs for real, is broken for real, and is judged from recorded histories."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from meantime.cli.output import print_json, print_line


def register(app: typer.Typer) -> None:
    app.command()(chaos)


def chaos(
    seed: Annotated[int, typer.Option(help="Decides every choice; the same seed makes the same plan.")] = 1,
    switches: Annotated[int, typer.Option(min=1, max=1000, help="How many switches, each with a fault.")] = 10,
    data: Annotated[
        Path | None, typer.Option(help="Where the stack of the suite lives; a temporary folder if not given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Switch storages under load while processes are killed and frozen, and check that nothing is lost.

    Starts a stack of its own: three nodes, two Kafka clusters. Exit code 1 if anything was lost, twice, out of order or left
    behind.

    Example: meantime chaos --seed 7 --switches 20
    """
    from meantime.chaos.streams import ChaosPlan, run

    tell = (lambda _: None) if json else print_line
    with tempfile.TemporaryDirectory(prefix="meantime-chaos-") as folder:
        report = run((data or Path(folder)) / "stack", ChaosPlan(seed=seed, switches=switches), tell)
    if json:
        print_json(report.summary())
    else:
        print_line("\n".join(report.lines()))
    if not report.good:
        raise typer.Exit(1)
