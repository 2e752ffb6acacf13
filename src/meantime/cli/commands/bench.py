"""The commands that put the system to the test: `bench` measures it beside its peers, `chaos` breaks it.

Benchmarks are programs of a checkout; each runs our side and a peer's in one run. In the fault suite everything runs for
real, is broken for real, and is judged from recorded histories.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from meantime.cli.output import print_json, print_line
from meantime.errors import NotFound

PROGRAMS = Path(__file__).parents[4] / "bench"


def register(app: typer.Typer) -> None:
    app.command()(bench)
    app.command()(chaos)


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; all if none is named.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Say which there are.")] = False,
) -> None:
    """Measure: our side and a peer's in the same run, printed as ratios.

    Absolute numbers depend on the machine; compare the ratios.

    Example: meantime bench topics
    """
    programs = {path.stem: path for path in sorted(PROGRAMS.glob("*.py")) if not path.stem.startswith("_")}
    if not programs:
        raise NotFound(f"no benchmarks in {PROGRAMS}: they are part of the source, not of the installed package")
    if list_only:
        print_line("\n".join(programs))
        return
    for name in names or programs:
        if name not in programs:
            raise NotFound(f"there is no benchmark {name!r}; there are: {', '.join(programs)}")
        print_line(f"\n━━ {name}")
        code = subprocess.run([sys.executable, str(programs[name])], check=False).returncode
        if code:
            raise typer.Exit(code)


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
