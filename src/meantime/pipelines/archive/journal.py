"""The journal of an archive: which events are in it, batch by batch, in small files beside the data.

    plan written ──► data files `b<number>-…` ──► entry written, plan removed
         └── crash ──► the same plan again: its files are removed first, so each event is in the archive once

An entry is written in one step (a rename), and its cursors are where the next batch begins.
"""

import msgspec

from meantime.errors import Invalid
from meantime.pipelines.spark.places import Place, found, write_whole

FOLDER = "_meantime"


class JournalEntry(msgspec.Struct, frozen=True):
    """`start` is exclusive, `end` inclusive: cursors by partition. `empty` are offsets that hold no event: what a key was
    deleted with, ends of transactions, what compaction has taken away. `expired` were gone from Kafka before the archive
    came to them, and are lost."""

    number: int
    start: dict[str, str]
    end: dict[str, str]
    rows: int = 0
    empty: int = 0
    expired: int = 0


class Journal:
    def __init__(self, archive: Place, event_type: str) -> None:
        self.archive = archive
        self.data = archive / f"event_type={event_type}"
        self.folder = archive / FOLDER / event_type
        self.staging = self.folder / "staging"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._plan = self.folder / "plan.json"

    def last(self) -> JournalEntry | None:
        files = found(self.folder, "[0-9]*.json")
        return self._read(files[-1]) if files else None

    def rows(self) -> int:
        return sum(self._read(file).rows for file in found(self.folder, "[0-9]*.json"))

    def plan(self) -> JournalEntry | None:
        """What was begun and is not finished."""
        begun = self._read(self._plan) if self._plan.exists() else None
        last = self.last()
        return None if begun is None or (last and last.number >= begun.number) else begun

    def begin(self, entry: JournalEntry) -> None:
        write_whole(self._plan, msgspec.json.encode(entry))

    def finish(self, entry: JournalEntry) -> None:
        write_whole(self.folder / f"{entry.number:010d}.json", msgspec.json.encode(entry))
        self._plan.unlink(missing_ok=True)

    def _read(self, file: Place) -> JournalEntry:
        try:
            return msgspec.json.decode(file.read_bytes(), type=JournalEntry)
        except msgspec.MsgspecError as error:
            raise Invalid(f"{file} is damaged: {error}") from error
