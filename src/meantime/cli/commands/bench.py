"""`meantime bench`: the table of what is measured, and the programs of a checkout that measure more of it."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from meantime.cli.output import print_line
from meantime.errors import NotFound

PROGRAMS = Path(__file__).parents[4] / "bench"
TABLE = "table"
"""The program whose rows may be named as well."""


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Rows of the table, or programs; the whole table if none is named.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Say which rows and programs there are.")] = False,
    short: Annotated[bool, typer.Option("--short", help="One short turn of each row, for a look after a change.")] = False,
    stack: Annotated[
        str | None, typer.Option(help="The data directory of a stack that runs, for rows, instead of one of their own.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Keep what came out of rows in docs/measured.")] = False,
) -> None:
    """Measure: our side and a peer's in the same run, printed as ratios with their goals.

    Absolute numbers depend on the machine; compare the ratios. What is worse by a tenth than what is on record is told in
    red. The JSON of what was measured goes to standard output.

    Example: meantime bench publish worker

    Example: meantime bench --short rest

    Example: meantime bench topics
    """
    programs = {path.stem: path for path in sorted(PROGRAMS.glob("*.py")) if not path.stem.startswith("_")}
    if not programs:
        raise NotFound(f"no benchmarks in {PROGRAMS}: they are part of the source, not of the installed package")
    if list_only:
        print_line(f"rows of the table\n{_indented(_rows(programs))}\nprograms\n{_indented(programs)}")
        return
    asked = names or [TABLE]
    rows = [] if set(asked) <= programs.keys() else [name for name in asked if name not in programs]
    known = _rows(programs) if rows else []
    for name in rows:
        if name not in known:
            raise NotFound(f"there is no benchmark {name!r}; there are: {', '.join([*known, *programs])}")
    options = [*(["--short"] * short), *(["--stack", stack] if stack else []), *(["--record"] * record)]
    if rows or TABLE in asked:
        _run(programs[TABLE], *rows, *options)
    for name in asked:
        if name in programs and name != TABLE:
            print_line(f"\n━━ {name}")
            _run(programs[name])


def _rows(programs: Mapping[str, Path]) -> list[str]:
    listed = subprocess.run([sys.executable, str(programs[TABLE]), "--list"], capture_output=True, text=True, check=False)
    if listed.returncode:
        raise NotFound(f"the table cannot be read; its packages are those of `make setup`: {listed.stderr.strip()[-300:]}")
    return listed.stdout.split()


def _indented(names: Iterable[str]) -> str:
    return "\n".join(f"  {name}" for name in names)


def _run(program: Path, *arguments: str) -> None:
    code = subprocess.run([sys.executable, str(program), *arguments], check=False).returncode
    if code:
        raise typer.Exit(code)
