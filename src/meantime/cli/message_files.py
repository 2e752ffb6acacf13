"""Messages to be scheduled, out of the lines of NDJSON and CSV files.

An NDJSON line is `{"id"?, "at" | "at_ms" | "after" | "after_ms", "body" | "body_b64"}`. In CSV the columns `id`, `at`,
`at_ms`, `after` and `after_ms` have the same meaning; a column `body` is the body (JSON if it reads as such, else text), and
without one all other columns together are it. Lines that say no instant get the one of the command line.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import typer

from meantime.cli.input import InputLine
from meantime.cli.instants import seconds, unix_seconds
from meantime.errors import Invalid
from meantime.unknown_fields import hint

if TYPE_CHECKING:
    from meantime.sdk.messages import NewMessage

WHEN = ("at", "at_ms", "after", "after_ms")
KNOWN = {"id", "body", "body_b64", *WHEN}


@dataclass(frozen=True, slots=True)
class When:
    """What the command line said, for lines that say nothing; `now` is the broker's time in seconds."""

    now: float
    at: str | None = None
    after: str | None = None

    def fields(self) -> dict[str, Any]:
        return {name: text for name, text in (("at", self.at), ("after", self.after)) if text is not None}


def rows_of_csv(file: Path) -> Iterator[InputLine]:
    """CSV rows as JSON texts."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            reader = csv.DictReader(opened)
            for row in reader:
                place = f"{file}:{reader.line_num}"
                if None in row or None in row.values():
                    yield InputLine(
                        place, msgspec.json.encode(_cells(row)), "the row has more or fewer cells than the header"
                    )
                else:
                    yield InputLine(place, msgspec.json.encode(_of_row(row)))
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise Invalid(f"{file} is not CSV in UTF-8: {error}") from error


def _of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    special = {name: row[name] for name in ("id", *WHEN) if row.get(name)}
    rest = {name: value for name, value in row.items() if name not in ("id", "body", *WHEN)}
    return special | {"body": _json_or_text(row["body"]) if "body" in row else rest}


def _cells(row: Mapping[str | None, Any]) -> list[str]:
    """All that stood there, in order."""
    return [cell for name, cell in row.items() if name is not None and cell is not None] + list(row.get(None) or ())


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def message(item: InputLine, default: When) -> "NewMessage":
    """The message of one line; Invalid says what is wrong with it."""
    from meantime.sdk.messages import NewMessage

    if item.fault:
        raise Invalid(item.fault)
    try:
        line = msgspec.json.decode(item.text, type=dict[str, Any])
        for name in line.keys() - KNOWN:
            raise Invalid(f"{name!r} is not known here{hint(name, KNOWN)}")
        given = {name: line[name] for name in WHEN if line.get(name) is not None} or default.fields()
        at_ms, after_ms = _when(given, default.now)
        return msgspec.convert(
            {
                "id": line.get("id") or uuid4().hex,
                "at_ms": at_ms,
                "after_ms": after_ms,
                "body": line.get("body"),
                "body_b64": line.get("body_b64"),
            },
            NewMessage,
        )
    except msgspec.MsgspecError as error:
        raise Invalid(f"not a message: {error}") from error
    except typer.BadParameter as error:
        raise Invalid(error.message) from error


def _when(given: Mapping[str, Any], now: float) -> tuple[int | None, int | None]:
    if len(given) != 1:
        raise Invalid(f"say when with exactly one of {', '.join(WHEN)}")
    ((name, value),) = given.items()
    text = f"{value}s" if name == "after" and type(value) in (int, float) else str(value)
    if name.endswith("_ms") and not text.lstrip("-").isdigit():
        raise Invalid(f"{name} is not a whole number: {text!r}")
    if name.startswith("at"):
        return (int(text) if name == "at_ms" else round(unix_seconds(text, now) * 1000)), None
    return None, (int(text) if name == "after_ms" else round(seconds(text) * 1000))
