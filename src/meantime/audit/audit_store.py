"""The audit log: every act of an operator, in PostgreSQL.

An act is written down after it was done, and before its caller is told: so what a caller knows to be done is in the log, and
what is in the log was done. Only a node that dies in between, or a database that does not take the entry, leaves an act
without one. The second never undoes or fails the act: the entry goes to the node's log instead, whole, and is counted.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import structlog
from prometheus_client import Counter
from psycopg.types.json import Jsonb

from meantime.clock import Clock
from meantime.database.pool import Database
from meantime.database.queries import load
from meantime.errors import MeantimeError
from meantime.metrics import REGISTRY

log = structlog.get_logger(__name__)

WITHIN = 3.0
"""Seconds that an act waits for its entry to be written."""
PURGE_EVERY = 600.0
PURGED_AT_ONCE = 5_000
LONGEST_TEXT = 500
FIRST_MS, LAST_MS, LAST_ID = -(1 << 62), 1 << 62, (1 << 63) - 1

LOST = Counter(
    "meantime_audit_entries_lost_total",
    "Acts of operators that are in the log of the node instead of the audit log.",
    registry=REGISTRY,
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """`target` is a path of the API. `count`: how many things were changed, where that says something. `id` is 0 before it
    is written."""

    at_ms: int
    actor: str
    action: str
    target: str
    count: int | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    id: int = 0


class AuditLog:
    """`keep_for` are the seconds after which entries are removed."""

    def __init__(self, database: Database, clock: Clock, keep_for: int) -> None:
        self._database = database
        self._clock = clock
        self._keep_for = keep_for
        self._sql = load("meantime.audit", "audit.sql")

    async def record(self, actor: str, action: str, target: str, count: int | None, detail: dict[str, Any]) -> None:
        """Never raises: what was done is done."""
        entry = AuditEntry(self._clock.now_ms(), actor, action, target[:LONGEST_TEXT], count, detail)
        try:
            async with asyncio.timeout(WITHIN):
                await self.add(entry)
        except (MeantimeError, TimeoutError) as error:
            self._lost(entry, str(error) or type(error).__name__)
        except Exception as error:
            self._lost(entry, repr(error))
            log.exception("audit_failed")

    async def add(self, entry: AuditEntry) -> None:
        values = {
            "at_ms": entry.at_ms,
            "actor": entry.actor,
            "action": entry.action,
            "target": entry.target,
            "count": entry.count,
            "detail": Jsonb(entry.detail),
        }
        await self._database.execute(self._sql["add"], values)

    async def page(
        self, from_ms: int | None, to_ms: int | None, actor: str | None, before: int | None, limit: int
    ) -> list[AuditEntry]:
        """Newest first, from the one before this id."""
        values = {
            "from_ms": FIRST_MS if from_ms is None else from_ms,
            "to_ms": LAST_MS if to_ms is None else to_ms,
            "actor": actor,
            "before": LAST_ID if before is None else before,
            "limit": limit,
        }
        return [AuditEntry(**row) for row in await self._database.fetch_all(self._sql["page"], values)]

    async def purge(self) -> int:
        """Remove what is old."""
        values = {"before_ms": self._clock.now_ms() - self._keep_for * 1000, "limit": PURGED_AT_ONCE}
        return await self._database.execute(self._sql["purge"], values)

    def _lost(self, entry: AuditEntry, why: str) -> None:
        LOST.inc()
        log.error(
            "audit_entry_lost",
            reason=why,
            at_ms=entry.at_ms,
            actor=entry.actor,
            action=entry.action,
            target=entry.target,
            count=entry.count,
            detail=entry.detail,
        )
