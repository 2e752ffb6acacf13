"""The ledger's tables in PostgreSQL.

Tokens hold no character that an array literal would have to escape, so arrays are sent as text, which costs a fraction of
adapting them element by element.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
from psycopg.types.json import Jsonb

from meantime.database.pool import Connection, Database, LostRace
from meantime.database.queries import load
from meantime.errors import Conflict
from meantime.timers.model import LedgerEntry, LedgerTotals, TimerId, TimerState
from meantime.timers.reports import KINDS, OscillatorReport, Report, Reported

Place = tuple[str, int]
"""A topic and a partition."""


class LedgerStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queries = load("meantime.timers.ledger", "queries.sql")

    # Nodes

    async def note(self, timers: Iterable[TimerId]) -> None:
        """These were written to Kafka."""
        await self._database.execute(self._queries["note"], _arrays(timers))

    async def note_cancelled(self, token: str, second: int) -> None:
        await self._database.execute(self._queries["note_cancelled"], {"token": token, "second": second})

    async def find(self, token: str) -> list[LedgerEntry]:
        rows = await self._database.fetch_all(self._queries["find"], {"token": token})
        return [_entry(row) for row in rows]

    async def load(self, from_s: int, to_s: int, step_s: int, count_below: int = 200_000) -> dict[int, int]:
        """How many are pending in each slot; counted one by one unless there are very many."""
        span = {"from_s": from_s, "to_s": to_s, "step_s": step_s}
        row = await self._database.fetch_one(self._queries["pending_about"], span)
        by_minute = from_s % 60 == 0 and step_s % 60 == 0 and row is not None and row["pending"] > count_below
        rows = await self._database.fetch_all(self._queries["load_by_minute" if by_minute else "load_by_second"], span)
        return {row["slot"]: row["pending"] for row in rows}

    async def totals(self, now_ms: int) -> tuple[LedgerTotals, int]:
        """The sums, and how many pending timers should have ended some minutes ago."""
        overdue_minute = now_ms // 60_000 - 2
        row = await self._database.fetch_one(self._queries["totals"], {"overdue_minute": overdue_minute})
        assert row is not None
        overdue = row.pop("overdue")
        return LedgerTotals(**row), overdue

    async def last_tick(self, now: int) -> int | None:
        """Where the ticks ended, by the last report of it, else just before the oldest timer that is pending. None when
        nobody has ever waited for a tick."""
        reports = [said.report for said in await self.reports(OscillatorReport, 0)]
        row = await self._database.fetch_one(self._queries["oldest_pending"])
        pending = row["second"] if row else None
        known = [report.last_tick for report in reports if isinstance(report, OscillatorReport) and report.last_tick <= now]
        last = max(known) if known else None if pending is None else pending - 1
        return None if last is None or last > now else last

    # The ledger itself

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Connection]:
        """One transaction of the ledger; `Conflict` when it has to be tried again."""
        try:
            async with self._database.transaction() as connection:
                # Whatever the planner believes of the table's size, each timer is one look-up.
                await connection.execute("SET LOCAL enable_seqscan = off")
                yield connection
        except LostRace as error:
            raise Conflict("the ledger met a node's write; try again") from error

    async def apply(
        self, connection: Connection, state: TimerState, timers: Mapping[TimerId, int | None], reason: str | None = None
    ) -> None:
        """Record one state of many timers; `timers` holds the instant at which a dispatcher ended each, if one has."""
        if timers and state is TimerState.PENDING:
            await connection.execute(self._queries["request"], _arrays(timers))
        elif timers:
            instants = "{" + ",".join("NULL" if at_ms is None else str(at_ms) for at_ms in timers.values()) + "}"
            parameters = {**_arrays(timers), "at_ms": instants, "state": int(state), "reason": reason}
            await connection.execute(self._queries["apply"], parameters)

    async def progress(self) -> dict[Place, int]:
        rows = await self._database.fetch_all(self._queries["progress"])
        return {(row["topic"], row["partition"]): row["next_offset"] for row in rows}

    async def begin_progress(self, places: Iterable[Place]) -> None:
        async with self._database.connection() as connection:
            for topic, partition in places:
                await connection.execute(self._queries["begin_progress"], {"topic": topic, "partition": partition})

    async def advance(self, connection: Connection, place: Place, offset: int, next_offset: int) -> None:
        """Move on; `Conflict` when another ledger has."""
        topic, partition = place
        moved = await connection.execute(
            self._queries["advance"],
            {"topic": topic, "partition": partition, "offset": offset, "next_offset": next_offset},
        )
        if moved.rowcount != 1:
            raise Conflict(f"another ledger has read {topic}-{partition}")

    async def forget(self, before_s: int, most: int = 5000) -> int:
        return await self._database.execute(self._queries["forget"], {"before_s": before_s, "most": most})

    # Dispatchers and the Spark job

    async def agreed_shares(self, partitions: int) -> int:
        """How many shares there are, as all have agreed on when there were so many partitions at the first time."""
        row = await self._database.fetch_one(self._queries["agree_on_shares"], {"partitions": partitions})
        assert row is not None
        return int(row["shares"])

    async def entries(self, timers: Sequence[TimerId]) -> dict[TimerId, LedgerEntry]:
        rows = await self._database.fetch_all(self._queries["entries"], _arrays(timers))
        return {TimerId(row["token"], row["second"]): _entry(row) for row in rows}

    # Everybody

    async def report(self, name: str, at_ms: int, report: Report) -> None:
        parameters = {"kind": KINDS[type(report)], "name": name, "at_ms": at_ms}
        document = Jsonb(report, dumps=msgspec.json.encode)
        await self._database.execute(self._queries["report"], {**parameters, "report": document})

    async def reports(self, kind: type[Report], since_ms: int) -> list[Reported]:
        """What processes of a kind have said since an instant, the latest first."""
        rows = await self._database.fetch_all(self._queries["reports"], {"since_ms": since_ms})
        mine = [row for row in rows if row["kind"] == KINDS[kind]]
        found = [Reported(row["name"], row["at_ms"], msgspec.convert(row["report"], kind, strict=False)) for row in mine]
        return sorted(found, key=lambda reported: reported.at_ms, reverse=True)

    async def forget_reports(self, before_ms: int) -> None:
        await self._database.execute(self._queries["forget_reports"], {"before_ms": before_ms})


def _arrays(timers: Iterable[TimerId]) -> dict[str, str]:
    tokens, seconds = [], []
    for token, second in timers:
        tokens.append(f'"{token}"')
        seconds.append(str(second))
    return {"tokens": "{" + ",".join(tokens) + "}", "seconds": "{" + ",".join(seconds) + "}"}


def _entry(row: Mapping[str, object]) -> LedgerEntry:
    state = TimerState(row["state"])  # type: ignore[arg-type]
    if row["cancelled"] and state in (TimerState.NOTED, TimerState.PENDING):
        state = TimerState.CANCELLED
    fired_at_ms = row["ended_at_ms"] if state is TimerState.FIRED else None
    certain = state is not TimerState.CANCELLED or bool(row["cancelled"]) or row["ended_at_ms"] is not None
    reason = row["reason"] if state is TimerState.REJECTED else None
    return LedgerEntry(row["token"], row["second"], state, fired_at_ms, reason, certain)  # type: ignore[arg-type]
