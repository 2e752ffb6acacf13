"""The table: what is measured, row by row, with what it is to reach, the peer in the same run, and what was measured before.

    python bench/table.py                   all rows, in less than 15 minutes
    python bench/table.py publish rest      some of them
    python bench/table.py --short worker    a turn of each, for a look after a change
    python bench/table.py --record          and keep what came out as docs/measured/table.json and table.md

Sides take turns, and the median of the ratios counts. A figure that is worse by more than a tenth than the one on record is
told in red. A row whose peer is not installed is told and left out.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _table_model import Missing, Row, Stage, Values, machine, read_record, write_record
from _table_rows import ROWS, staged
from rich.console import Console
from rich.table import Table

DOCS = Path(__file__).parents[1] / "docs" / "measured"
RECORD, PAGE = DOCS / "table.json", DOCS / "table.md"
NOTE = """\
# The table

What is measured with `meantime bench`, written by `meantime bench --record` from [table.json](table.json).
Ratios are ours ÷ the peer's in the same run; only those compare between machines.
*Floor* is where a figure stood when its goal was set.

"""
console = Console(width=130, stderr=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rows", nargs="*", metavar="row", help=f"of {', '.join(row.name for row in ROWS)}; all if none is named"
    )
    parser.add_argument("--short", action="store_true", help="one short turn of each")
    parser.add_argument("--stack", type=Path, help="the data directory of a stack that runs, instead of one of its own")
    parser.add_argument("--record", action="store_true", help="keep what came out in docs/measured")
    parser.add_argument("--list", action="store_true", help="say which rows there are")
    options = parser.parse_args()
    if options.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    unknown = set(options.rows) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}")
    wanted = [row for row in ROWS if not options.rows or row.name in options.rows]
    before = read_record(RECORD)
    found = measured(wanted, options)
    print(json.dumps({**machine(), "rows": found}, indent=1, ensure_ascii=False))
    show(wanted, found, before["rows"])
    if options.record:
        known = {name: told for name, told in before["rows"].items() if name in {row.name for row in ROWS}}
        record = {**machine(), "rows": {**known, **{name: {**machine(), **told} for name, told in found.items()}}}
        write_record(RECORD, record)
        PAGE.write_text(page(record["rows"]))
    return 0


def measured(rows: Sequence[Row], options: argparse.Namespace) -> dict[str, Any]:
    """Rows that need no common stack come first, while none runs."""
    found: dict[str, Any] = {}
    seconds, turns = (1.5, 1) if options.short else (3.0, 3)
    alone, together = [row for row in rows if not row.stack], [row for row in rows if row.stack]
    for row in alone:
        tell(row, Stage(Path(), None, seconds, turns), found)  # type: ignore[arg-type]
    with ExitStack() as opened:
        if together:
            stage = opened.enter_context(staged(options.stack, seconds, turns))
            for row in together:
                tell(row, stage, found)
    return found


def tell(row: Row, stage: Stage, found: dict[str, Any]) -> None:
    console.print(f"{row.name} …")
    try:
        values = row.measure(stage)
    except Missing as missing:
        console.print(f"  left out, a peer is missing: {missing}")
        return
    except Exception as error:  # the other rows are worth having
        console.print(f"  [red]failed[/]: {type(error).__name__}: {error}")
        return
    found[row.name] = {"values": {name: round(value, 4) for name, value in values.items()}}


def show(rows: Sequence[Row], found: dict[str, Any], before: dict[str, Any]) -> None:
    table = Table()
    for column in ("row", "what", "measured", "goal", "floor", "on record", "peer"):
        table.add_column(column)
    for row in rows:
        values: Values = found.get(row.name, {}).get("values", {})
        known: Values = before.get(row.name, {}).get("values", {})
        for name, figure in row.figures.items():
            value, last = values.get(name), known.get(name)
            fell = value is not None and last is not None and figure.fell(value, last)
            colour = "red" if fell else "green" if value is not None and figure.met(value) else "yellow"
            cells = (figure.aim, figure.shown(figure.floor), figure.shown(last), row.peer)
            table.add_row(row.name, figure.title, f"[{colour}]{figure.shown(value)}{' FELL' * fell}[/]", *cells)
    console.print(table)


def page(rows: dict[str, Any]) -> str:
    lines = [
        "| row | what | measured | goal | | floor | peer | when, commit, load |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in ROWS:
        told = rows.get(row.name)
        for name, figure in row.figures.items():
            value = None if told is None else told["values"].get(name)
            met = "" if value is None else "met" if figure.met(value) else "missed"
            when = "" if told is None else f"{told['at']}, {told['commit']}, {told['load']}"
            cells = (figure.title, figure.shown(value), figure.aim, met, figure.shown(figure.floor), row.peer, when)
            lines.append(f"| `{row.name}` | " + " | ".join(cells) + " |")
    where = next(iter(rows.values()), {})
    told = "Machine: {cores} cores, {memory_gib} GiB, {system}, Python {python}.".format(**where) if where else ""
    return NOTE + told + "\n\n" + "\n".join(lines) + "\n" + _idle(rows)


def _idle(rows: dict[str, Any]) -> str:
    values = rows.get("rest", {}).get("values", {})
    names = [name.removesuffix(" %") for name in values if name.endswith(" %")]
    if not names:
        return ""
    lines = [f"| {name} | {values[f'{name} %']:.1f} % | {values[f'{name} MB']:.0f} MB |" for name in names]
    return "\n## Each process at rest\n\n| process | of a core | memory |\n| --- | --- | --- |\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
