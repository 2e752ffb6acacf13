"""Delivering a batch although its topics refuse single callbacks.

A transaction is all or nothing, so one callback that its topic refuses would hold up all others. What goes to other topics
is sent without it; what goes to that topic is tried in halves, until the one that is refused is found and rejected.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from meantime.timers.dispatching.transaction import (
    FiredTimers,
    FiringTransaction,
    OutcomeBatch,
    TransactionAborted,
    Undeliverable,
)

log = structlog.get_logger(__name__)


class CallbackTopics:
    """Which topics there are: asked for when one is missed, at most once a second."""

    def __init__(self, ask: Callable[[], Mapping[str, int]]) -> None:
        self._ask = ask
        self._known: Mapping[str, int] = {}
        self._asked_at = -1.0

    def __contains__(self, topic: str) -> bool:
        """By what is known; a topic that was deleted lately may still seem to be there."""
        return topic in self._known

    def missing(self, topics: set[str]) -> set[str]:
        """Those that do not exist."""
        if time.monotonic() - self._asked_at > 1.0:
            self._known, self._asked_at = self._ask(), time.monotonic()
        return {topic for topic in topics if topic not in self._known}

    def partitions(self, topic: str) -> int:
        self.missing({topic})
        return self._known.get(topic, 0)


@dataclass(slots=True)
class DeliveryResult:
    """What went out, in the transactions that it went out in, and what could not be sent at present."""

    done: list[tuple[OutcomeBatch, list[FiredTimers]]] = field(default_factory=list)
    left: OutcomeBatch = field(default_factory=OutcomeBatch)


class TimerDelivery:
    def __init__(self, transaction: FiringTransaction, topics: CallbackTopics) -> None:
        self._transaction = transaction
        self._topics = topics

    def send(self, batch: OutcomeBatch, positions: Mapping[int, int], group: Any) -> DeliveryResult:
        """`positions` of `timer-due` and the consumer `group` go into every transaction, so that one of a dispatcher that
        has lost its shares is refused."""
        sent = DeliveryResult()
        self._send(batch, positions, group, sent)
        return sent

    def _send(self, batch: OutcomeBatch, positions: Mapping[int, int], group: Any, sent: DeliveryResult) -> None:
        if not batch:
            return
        if sent.left:
            sent.left.add(batch)
            return
        try:
            sent.done.append((batch, self._transaction.fire(batch, positions, group)))
        except TransactionAborted as error:
            log.warning("not_fired_yet", timers=len(batch.fire), error=str(error))
            sent.left.add(batch)
        except Undeliverable as error:
            for part in self._parts(batch, error.reasons):
                self._send(part, positions, group, sent)

    def _parts(self, batch: OutcomeBatch, reasons: Mapping[str, str]) -> list[OutcomeBatch]:
        accused = [held for held in batch.fire if held.future.topic in reasons]
        gone = self._topics.missing(set(reasons))
        refused = [(held, reasons[held.future.topic]) for held in accused if held.future.topic in gone or len(accused) == 1]
        doubtful = [] if len(accused) == 1 else [held for held in accused if held.future.topic not in gone]
        middle = len(doubtful) // 2
        return [
            OutcomeBatch(
                fire=[held for held in batch.fire if held.future.topic not in reasons],
                cancelled=batch.cancelled,
                rejected=batch.rejected + refused,
                fired_elsewhere=batch.fired_elsewhere,
                attempt=batch.attempt,
            ),
            OutcomeBatch(fire=doubtful[:middle]),
            OutcomeBatch(fire=doubtful[middle:]),
        ]
