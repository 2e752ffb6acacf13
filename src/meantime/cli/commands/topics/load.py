"""`meantime load`: the future of a topic, drawn in the terminal."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meantime.cli.instants import clock_time, human, seconds, unix_seconds
from meantime.cli.output import on_terminal, print_json, print_rich, print_table
from meantime.cli.session import ClusterSession, TopicName, on_cluster

if TYPE_CHECKING:
    from rich.table import Table

    from meantime.sdk.messages import Slot

#: Steps that people can read off, in seconds.
STEPS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 43_200, 86_400, 604_800)
COLOURS = {"available": "red", "processing": "cyan", "waiting": "green", "planned": "yellow"}
ROWS = 24


def register(root: typer.Typer) -> None:
    root.command(rich_help_panel="Topics")(load)


@on_cluster
def load(
    session: ClusterSession,
    topic: TopicName,
    start: Annotated[str, typer.Option("--from", help="Instant to begin with, like now or 2026-05-01T09:00:00Z.")] = "now",
    span: Annotated[str, typer.Option("--for", help="How far to look, like 10m or 7d.")] = "1h",
    step: Annotated[str | None, typer.Option("--step", help="Length of a slot; chosen to fit if not given.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Draw again every second until Ctrl-C.")] = False,
) -> None:
    """See the future: how many messages become due in each slot of time.

    Red is due now and waiting for a consumer, blue is being worked on, green is still to come, yellow is what schedules will
    add.

    Example: meantime load reminders --for 10m --watch

    Example: meantime load reminders --from 2026-05-01T00:00:00Z --for 7d --step 6h --json
    """
    ahead = seconds(span)
    slot_for = seconds(step) if step else fitting_step(ahead)
    if ahead <= 0 or slot_for <= 0:
        raise typer.BadParameter("--for and --step must be longer than nothing, like 10m")
    if watch and on_terminal() and not session.json:
        _watch(session, topic, start, ahead, slot_for)
        return
    slots = _look(session, topic, start, ahead, slot_for)
    if session.json:
        print_json({"topic": topic, "step_ms": round(slot_for * 1000), "slots": slots})
    elif on_terminal():
        print_rich(chart(topic, slots, slot_for, session.client.now()))
    else:
        rows = [[clock_time(slot.from_ms), slot.waiting, slot.processing, slot.available, slot.planned] for slot in slots]
        print_table(["from", "waiting", "processing", "available", "planned"], rows)


def fitting_step(ahead: float) -> float:
    """The finest step that does not need more rows than a screen has."""
    return next((step for step in STEPS if ahead / step <= ROWS), ahead / ROWS)


def _look(session: ClusterSession, topic: str, start: str, ahead: float, step: float) -> "list[Slot]":
    if not session.client.core.drift.measured:
        session.client.health()
    begin = unix_seconds(start, session.client.now())
    aligned = begin - begin % step if start == "now" else begin
    return session.client.load(topic, aligned, aligned + ahead, step)


def _watch(session: ClusterSession, topic: str, start: str, ahead: float, step: float) -> None:
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        while True:
            slots = _look(session, topic, start, ahead, step)
            live.update(chart(topic, slots, step, session.client.now()), refresh=True)
            time.sleep(1)


def chart(topic: str, slots: "list[Slot]", step: float, now: float) -> "Table":
    from rich.table import Table
    from rich.text import Text

    peak = max((slot.total for slot in slots), default=0)
    total = sum(slot.total for slot in slots)
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
    table.add_column(f"{topic}, every {human(step)}", no_wrap=True)
    table.add_column("due", justify="right", no_wrap=True)
    table.add_column(f"{total:,} messages, at most {peak:,} in one slot", ratio=1, no_wrap=True)
    for slot in slots:
        style = "bold" if slot.from_ms <= now * 1000 < slot.from_ms + step * 1000 else "dim"
        table.add_row(Text(_label(slot.from_ms, step), style), f"{slot.total:,}" if slot.total else "", Bar(slot, peak))
    return table


def _label(from_ms: int, step: float) -> str:
    text = clock_time(from_ms)
    return text[:10] if step >= 86_400 else text[5:16] if step >= 60 else text[11:-1]


class Bar:
    """One slot as coloured blocks, as long as its share of the peak."""

    def __init__(self, slot: "Slot", peak: int) -> None:
        self._slot = slot
        self._peak = peak

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.segment import Segment
        from rich.style import Style

        width = max(1, options.max_width)
        drawn = 0
        reached = 0
        for status, colour in COLOURS.items():
            reached += getattr(self._slot, status)
            until = round(width * reached / self._peak) if self._peak else 0
            until = max(until, drawn + 1) if getattr(self._slot, status) and until == drawn and drawn < width else until
            yield Segment("█" * (until - drawn), Style(color=colour))
            drawn = until
        yield Segment.line()
