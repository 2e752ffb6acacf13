"""`meantime audit`: what operators have done."""

from typing import Annotated, Any

import msgspec
import typer

from meantime.cli.instants import clock_time
from meantime.cli.output import print_json, print_table
from meantime.cli.session import ClusterSession, on_cluster


class AuditEntryLine(msgspec.Struct, frozen=True):
    at_ms: int
    actor: str
    action: str
    target: str
    count: int | None = None
    detail: dict[str, Any] = {}


class AuditPage(msgspec.Struct, frozen=True):
    entries: list[AuditEntryLine]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel="Run")(audit)


@on_cluster
def audit(
    session: ClusterSession,
    actor: Annotated[str | None, typer.Option(help="Only what the key of this name did.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many entries, the newest.")] = 50,
    from_ms: Annotated[int | None, typer.Option("--from-ms", help="From this Unix millisecond on.")] = None,
    to_ms: Annotated[int | None, typer.Option("--to-ms", help="Before this Unix millisecond.")] = None,
) -> None:
    """Show what operators have done: who, what, with what, how many; newest first. Asks for the scope admin.

    Example: meantime audit --limit 20
    """
    from meantime.sdk.calls import call as calls

    query = {"actor": actor, "limit": limit, "from_ms": from_ms, "to_ms": to_ms}
    found = session.client.send(calls.Call("GET", calls.path("audit", query=query), calls.reading(AuditPage)))
    if session.json:
        print_json(msgspec.to_builtins(found.entries))
        return
    rows = [
        [clock_time(one.at_ms), one.actor, one.action, one.target, "" if one.count is None else one.count, _brief(one)]
        for one in found.entries
    ]
    print_table(["at", "who", "what", "with", "how many", "detail"], rows)


def _brief(entry: AuditEntryLine) -> str:
    """Without what only logs are compared by."""
    shown = {name: value for name, value in entry.detail.items() if name not in ("flow_id", "peer", "key_id")}
    return msgspec.json.encode(shown).decode() if shown else ""
