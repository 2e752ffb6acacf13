"""Rows of a frame into messages: the columns checked once, every row by itself by the rules of topics.

A body of type string is JSON if it reads as such, else a JSON string; binary is bytes; anything else becomes JSON. Without a
column `id` a row is named after its place in the job, so that a task that is tried again makes the same messages.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from meantime.errors import Invalid
from meantime.pipelines.topics.model import Reject
from meantime.topics.drafts import checked
from meantime.topics.model import MessageDraft, NewMessage, Refused, Topic

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

COLUMNS = ("id", "at_ms", "after_ms", "body")
UNREAD = "unread"
"""A column of frames that were read from files: why a row could not be read, null if it could."""
ORIGINAL = "original"
"""Another one: the row as it stood in its file, as a JSON object."""
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True, slots=True)
class RowContext:
    """What a row is checked against. `job` and `task` name rows that have no id."""

    topic: Topic
    group: str
    now_ms: int
    job: str
    task: int


def check_columns(schema: "StructType", *, stream: bool) -> None:
    """Raises Invalid naming the column that is missing, unknown or of a wrong type."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name in kinds:
        if name not in (*COLUMNS, UNREAD, ORIGINAL):
            raise Invalid(f"column {name!r} is unknown here: a message has {', '.join(COLUMNS)}", column=name)
    if "body" not in kinds:
        raise Invalid("column 'body' is missing", column="body")
    if "at_ms" not in kinds and "after_ms" not in kinds:
        raise Invalid("column 'at_ms' is missing (or 'after_ms'): a message needs an instant", column="at_ms")
    for name in ("at_ms", "after_ms"):
        if kinds.get(name, "bigint") not in WHOLE_NUMBERS:
            raise Invalid(f"column {name!r} is milliseconds as bigint, not {kinds[name]}", column=name)
    if kinds.get("id", "string") != "string":
        raise Invalid(f"column 'id' is a string, not {kinds['id']}", column="id")
    if stream and "id" not in kinds:
        raise Invalid("column 'id' is missing: without natural ids a repeated batch would be scheduled twice", column="id")


def checked_rows(batches: "Iterable[RecordBatch]", context: RowContext) -> Iterator[NewMessage | Reject]:
    """One result per row, in their order."""
    number = 0
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        empty = [None] * batch.num_rows
        rows = zip(*(columns.get(name, empty) for name in COLUMNS), strict=True)
        files = zip(columns.get(UNREAD, empty), columns.get(ORIGINAL, empty), strict=True)
        for row, (unread, original) in zip(rows, files, strict=True):
            checked_row = _checked_row(row, number, "id" in columns, context) if unread is None else Refused(row[0], unread)
            yield (
                checked_row if isinstance(checked_row, NewMessage) else _reject(row, original, number, checked_row, context)
            )
            number += 1


def _checked_row(row: Sequence[Any], number: int, named: bool, context: RowContext) -> NewMessage | Refused:
    id, at_ms, after_ms, body = row
    if not named:
        id = f"{context.job}-{context.task}-{number}"
    elif id is None:
        return Refused(None, "the column 'id' is null")
    return checked(_draft(id, at_ms, after_ms, body), context.topic, context.group, context.now_ms)


def _draft(id: str, at_ms: int | None, after_ms: int | None, body: Any) -> MessageDraft:
    if isinstance(body, bytes | bytearray):
        return MessageDraft(id, at_ms, after_ms, body_b64=b64encode(body).decode())
    return MessageDraft(id, at_ms, after_ms, msgspec.Raw(json_of(body)))


def json_of(body: Any) -> bytes:
    if isinstance(body, str):
        text = body.encode()
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            return msgspec.json.encode(body)
        return text
    return msgspec.json.encode(body, enc_hook=str)


def _reject(row: Sequence[Any], original: str | None, number: int, refused: Refused, context: RowContext) -> Reject:
    named = {name: value for name, value in zip(COLUMNS, row, strict=True) if value is not None}
    shown = msgspec.json.decode(original) if original else msgspec.to_builtins(named, enc_hook=str)
    place = f"row {number} of task {context.task}" + (f" (id {refused.id!r})" if refused.id else "")
    return Reject(place, shown, refused.error)
