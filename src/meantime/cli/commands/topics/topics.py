"""`meantime topics`: make, look at and remove topics."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meantime.cli.commands.topics import messages
from meantime.cli.exit_codes import PARTLY
from meantime.cli.instants import human, seconds
from meantime.cli.output import print_json, print_line, print_table, say
from meantime.cli.session import ClusterSession, TopicName, Yes, confirm, on_cluster

if TYPE_CHECKING:
    from meantime.sdk.messages import RetryPolicy

app = typer.Typer(no_args_is_help=True, help="Topics: messages positioned in time.")

Span = str | None
REDRIVEN_AT_ONCE = 10_000
STAYED = {
    "leased": "leased by a consumer",
    "topic_gone": "came from a topic that is gone; --to names another",
    "id_taken": "have an id that a message there has already",
    "not_a_dead_letter": "no dead letters",
}


def register(root: typer.Typer) -> None:
    messages.add_to(app)
    root.add_typer(app, name="topics", rich_help_panel="Topics")


@app.command("list")
@on_cluster
def list_all(session: ClusterSession) -> None:
    """List all topics.

    Example: meantime topics list
    """
    found = session.client.topics()
    if session.json:
        print_json(found)
        return
    rows = [
        [
            topic.name,
            topic.bucket_count,
            _span(topic.max_future_ms),
            _span(topic.max_lease_ms),
            topic.max_attempts or "no limit",
            topic.dead_letter_topic,
        ]
        for topic in found
    ]
    print_table(["name", "buckets", "max future", "max lease", "attempts", "dead letters to"], rows)


@app.command()
@on_cluster
def show(session: ClusterSession, name: TopicName) -> None:
    """Show one topic: its settings, how many messages it has, and who consumes it.

    Example: meantime topics show reminders
    """
    client = session.client
    topic, consumers = client.topic(name), client.consumers(name)
    if session.json:
        print_json(msgspec.to_builtins(topic) | {"consumers": consumers})
        return
    settings: list[list[object]] = [
        ["buckets", topic.bucket_count],
        ["max future", _span(topic.max_future_ms)],
        ["max lease", _span(topic.max_lease_ms)],
        ["max body", f"{topic.max_body_bytes} bytes"],
        ["max attempts", topic.max_attempts or "no limit"],
        ["dead letters to", topic.dead_letter_topic],
        ["remembers deleted ids", _span(topic.dedupe_ms)],
        ["retry", _retries(topic.retry)],
    ]
    print_table([topic.name, ""], [*settings, *([status, count] for status, count in (topic.counts or {}).items())])
    if consumers:
        rows = [[c.consumer_id, c.mode, c.node_id, c.outstanding, c.buffer, _buckets(c.buckets)] for c in consumers]
        print_line("")
        print_table(["consumer", "mode", "node", "leases", "buffer", "buckets"], rows)


@app.command()
@on_cluster
def create(
    session: ClusterSession,
    name: TopicName,
    buckets: Annotated[int | None, typer.Option("--buckets", min=1, help="Number of buckets; cannot change later.")] = None,
    max_future: Annotated[Span, typer.Option("--max-future", help="How far ahead messages may lie, like 30d.")] = None,
    max_lease: Annotated[Span, typer.Option("--max-lease", help="Longest lease, like 12h.")] = None,
    max_body: Annotated[int | None, typer.Option("--max-body", min=1, help="Largest body in bytes.")] = None,
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", min=0, help="Leases per message; 0: no limit.")
    ] = None,
    dead_letters: Annotated[str | None, typer.Option("--dead-letters", help="Topic for what was tried too often.")] = None,
    dedupe: Annotated[Span, typer.Option("--dedupe", help="How long deleted ids are remembered, like 1d.")] = None,
    retry_delay: Annotated[
        Span, typer.Option("--retry-delay", help="Pause after the first failed attempt, like 5s.")
    ] = None,
    retry_factor: Annotated[
        float | None, typer.Option("--retry-factor", min=1, help="How much longer with every attempt.")
    ] = None,
    retry_max: Annotated[Span, typer.Option("--retry-max", help="Longest pause, like 1h.")] = None,
    retry_jitter: Annotated[
        float | None, typer.Option("--retry-jitter", min=0, max=1, help="Fraction by which pauses differ, like 0.1.")
    ] = None,
) -> None:
    """Make a topic, or change the settings of one. What is not given keeps its value.

    Example: meantime topics create reminders --max-attempts 5 --dead-letters reminders.dead --retry-delay 10s
    """
    pauses = {
        "delay_ms": _given_ms(retry_delay),
        "factor": retry_factor,
        "max_ms": _given_ms(retry_max),
        "jitter": retry_jitter,
    }
    session.client.create_topic(
        name,
        bucket_count=buckets,
        max_future=_given(max_future),
        max_lease=_given(max_lease),
        max_body_bytes=max_body,
        max_attempts=max_attempts,
        dead_letter_topic=dead_letters,
        dedupe=_given(dedupe),
        retry={name: value for name, value in pauses.items() if value is not None} or None,
    )
    if session.json:
        print_json(session.client.topic(name))
    else:
        say(f"topic {name} is ready")


@app.command()
@on_cluster
def delete(session: ClusterSession, name: TopicName, yes: Yes = False) -> None:
    """Delete a topic and all its messages.

    Example: meantime topics delete reminders --yes
    """
    confirm(f"Delete the topic {name!r} and all its messages?", yes)
    session.client.delete_topic(name)
    if session.json:
        print_json({"deleted": name})
    else:
        say(f"topic {name} is being deleted")


@app.command()
@on_cluster
def redrive(
    session: ClusterSession,
    name: TopicName,
    to: Annotated[str | None, typer.Option("--to", help="Topic to send them to; else where each came from.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many.")] = None,
) -> None:
    """Send dead messages back to where they died, to be tried again from the first attempt.

    Dead letters of workers (APP.dead) go back to the job of their queue. What stays, and why, is told; then the exit
    code is 9.

    Example: meantime topics redrive reminders.dead

    Example: meantime topics redrive shop.dead --limit 10
    """
    moved, result = 0, None
    while limit is None or moved < limit:
        result = session.client.redrive(name, to=to, limit=min(limit - moved, REDRIVEN_AT_ONCE) if limit else None)
        moved += result.moved
        if not result.moved:
            break
    skipped, reasons = (result.skipped, result.reasons) if result else (0, {})
    if session.json:
        print_json({"moved": moved, "skipped": skipped} | ({"reasons": reasons} if reasons else {}))
    else:
        say(_redriven(name, moved, skipped, reasons))
    if skipped:
        raise typer.Exit(PARTLY)


def _redriven(name: str, moved: int, skipped: int, reasons: dict[str, int]) -> str:
    if not moved and not skipped:
        return f"nothing to send back: {name} has no dead messages"
    why = "; ".join(f"{count:,} {STAYED.get(reason, reason)}" for reason, count in reasons.items())
    return f"{moved:,} sent back" + (f", {skipped:,} stayed: {why}" if skipped else "")


def _retries(retry: "RetryPolicy | None") -> str:
    if retry is None:
        return ""
    pauses = (
        f"after {_span(retry.delay_ms)}, {retry.factor:g} times as long with every attempt, {_span(retry.max_ms)} at most"
    )
    return f"{pauses}, ±{(retry.jitter or 0) * 100:g} %"


def _given(text: Span) -> float | None:
    return seconds(text) if text else None


def _given_ms(text: Span) -> int | None:
    return round(seconds(text) * 1000) if text else None


def _span(value_ms: int | None) -> str:
    return human(value_ms / 1000) if value_ms else "0"


def _buckets(slices: Any) -> str:
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in slices)
