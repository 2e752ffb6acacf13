"""What is wrong now, as pure decisions over what a node knows: each problem with a sentence and the page that shows more.

The key of a problem stays the same for as long as it lasts, so that a viewer sees it come, change and go.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from meantime.cluster.view import NodeReport
from meantime.timers.status import SILENT_AFTER_MS, TimersStatus
from meantime.topics.model import TopicDepth

ERROR, WARNING = "error", "warning"
UNCONSUMED_AFTER_MS = 30_000
"""For so long something may be due before it is missed that nobody takes it."""
CLOSED_AFTER_MS = 5_000
"""A switch closes gates for less."""
SPARK_SILENT_AFTER_MS = 60_000


class ConsoleProblem(msgspec.Struct, frozen=True):
    """`link` is a path below `/console`."""

    code: str
    severity: str
    title: str
    detail: str
    link: str


Problems = dict[str, ConsoleProblem]


@dataclass(frozen=True, slots=True)
class AppSummary:
    name: str
    workers: int
    queues: int
    unowned: int
    paused: bool


def of_nodes(nodes: Iterable[NodeReport]) -> Problems:
    found = {}
    for node in nodes:
        if node.state != "healthy":
            severity = ERROR if node.state == "inactive" else WARNING
            why = "; ".join(reason.detail for reason in node.reasons) or "it does not say why"
            title = f"{node.id} is {node.state}"
            found[f"node:{node.id}"] = ConsoleProblem(f"node_{node.state}", severity, title, why, "")
    return found


def of_tasks(failing: Iterable[tuple[str, str]]) -> Problems:
    """Background tasks of this node that keep failing, each with its error."""
    return {
        f"task:{name}": ConsoleProblem("background_task", WARNING, f"{name} keeps failing", error, "")
        for name, error in failing
    }


def of_gates(closed_since_ms: Mapping[str, int], now_ms: int) -> Problems:
    return {
        f"gate:{name}": ConsoleProblem(
            "gate_closed",
            WARNING,
            f"{name} takes no events",
            f"its gate has been closed by a switch for {(now_ms - since_ms) // 1000} s",
            _page("event-types", name),
        )
        for name, since_ms in closed_since_ms.items()
        if now_ms - since_ms > CLOSED_AFTER_MS
    }


def of_topics(
    depths: Iterable[TopicDepth], consumed: Collection[int], letter_topics: Collection[str], now_ms: int
) -> Problems:
    """`consumed` are the topics (by id) that have consumers, `letter_topics` those that dead letters go to."""
    found = {}
    for depth in depths:
        counts, link = depth.counts, _page("topics", depth.name)
        if depth.name in letter_topics:
            if letters := counts.waiting + counts.processing + counts.available + counts.dead:
                found[f"dead:{depth.name}"] = ConsoleProblem(
                    "dead_letters", WARNING, f"dead letters in {depth.name}", f"{letters} messages wait for a decision", link
                )
            continue
        if counts.dead:
            detail = f"{counts.dead} messages have used up their attempts"
            found[f"dead:{depth.name}"] = ConsoleProblem(
                "dead_letters", WARNING, f"{depth.name} has dead messages", detail, link
            )
        overdue_ms = 0 if depth.oldest_due_ms is None else now_ms - depth.oldest_due_ms
        if counts.available and overdue_ms > UNCONSUMED_AFTER_MS and depth.topic_id not in consumed:
            detail = f"{counts.available} messages are due, the oldest for {overdue_ms // 1000} s"
            found[f"consumers:{depth.name}"] = ConsoleProblem(
                "no_consumers", ERROR, f"nobody consumes {depth.name}", detail, link
            )
    return found


def of_overloads(overloads: Mapping[str, tuple[int, int]]) -> Problems:
    return {
        f"overload:{name}": ConsoleProblem(
            "overload_ahead",
            WARNING,
            f"{name} will be overloaded",
            f"in {in_seconds} s more becomes due than its consumers can take, {excess} messages at the height of it",
            _page("topics", name),
        )
        for name, (in_seconds, excess) in overloads.items()
    }


def of_timers(status: TimersStatus) -> Problems:
    found = {}
    age_ms = status.oscillator.age_ms
    if age_ms is not None and age_ms > SILENT_AFTER_MS:
        detail = f"the last tick was written {age_ms // 1000} s ago; timers fire late until it goes on"
        found["oscillator"] = ConsoleProblem("oscillator_silent", ERROR, "the oscillator is silent", detail, "timers")
    if status.futures.age_ms is not None and status.futures.age_ms > SPARK_SILENT_AFTER_MS:
        detail = f"the last micro-batch was {status.futures.age_ms // 1000} s ago"
        found["futures"] = ConsoleProblem("futures_silent", ERROR, "the Spark job is silent", detail, "timers")
    if status.ledger.difference:
        detail = f"requested timers and those that have ended or are pending differ by {status.ledger.difference}"
        found["ledger"] = ConsoleProblem("ledger_difference", ERROR, "the ledger of timers differs", detail, "timers")
    if status.ledger.overdue:
        detail = f"{status.ledger.overdue} pending timers should have ended minutes ago"
        found["overdue"] = ConsoleProblem("timers_overdue", ERROR, "timers are overdue", detail, "timers")
    return found


def of_apps(apps: Iterable[AppSummary]) -> Problems:
    return {
        f"app:{app.name}": ConsoleProblem(
            "queues_unowned",
            WARNING,
            f"{app.name} has queues without an owner",
            f"{app.unowned} of {app.queues} queues, with {app.workers} workers",
            _page("workers", app.name),
        )
        for app in apps
        if app.unowned and not app.paused
    }


def _page(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)
