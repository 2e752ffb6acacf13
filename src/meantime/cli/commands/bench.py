"""`bench`: runs the benchmark programs of a checkout. Each runs our side and a peer's in one run."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from meantime.cli.output import print_line
from meantime.errors import NotFound

PROGRAMS = Path(__file__).parents[4] / "bench"


def register(app: typer.Typer) -> None:
    app.command()(bench)


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
