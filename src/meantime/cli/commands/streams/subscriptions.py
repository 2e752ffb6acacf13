"""`meantime subscriptions`: who reads what, how far behind they are, and how to set them back."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from meantime.cli.instants import human
from meantime.cli.output import print_json, print_table, say
from meantime.cli.session import ClusterSession, Yes, confirm, on_cluster
from meantime.errors import NotFound

if TYPE_CHECKING:
    from meantime.sdk.model import PartitionStats, SubscriptionStats

app = typer.Typer(no_args_is_help=True, help="Subscriptions: readers whose place is kept by the broker.")

SubscriptionId = Annotated[str, typer.Argument(metavar="ID", help="The id that `subscriptions list` shows.")]


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="subscriptions", rich_help_panel="Streams")


@app.command("list")
@on_cluster
def list_all(
    session: ClusterSession,
    event_type: Annotated[str | None, typer.Option("--event-type", "-e", help="Only those to this event type.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only those of this owning application.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")] = 100,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Leave out the first so many.")] = 0,
) -> None:
    """List subscriptions, the newest first.

    Example: meantime subscriptions list --event-type orders
    """
    found = session.client.subscriptions(event_type=event_type, owning_application=owner, limit=limit, offset=offset)
    if session.json:
        print_json(found)
        return
    rows = [[one.id, one.owning_application, one.consumer_group, " ".join(one.event_types)] for one in found]
    print_table(["id", "owner", "group", "event types"], rows)
    if len(found) == limit:
        say(f"there may be more: --offset {offset + limit}")


@app.command()
@on_cluster
def show(session: ClusterSession, id: SubscriptionId) -> None:
    """Show one subscription: for each partition its reader, its place and how much is left.

    Example: meantime subscriptions show 4a0d2f6e-6f0f-4d0b-9c0c-3b8d6a9a7c11
    """
    client = session.client
    found, stats = client.subscription(id), client.subscription_stats(id, show_time_lag=True)
    if session.json:
        print_json({"subscription": found, "stats": stats})
        return
    places = {(cursor.event_type, cursor.partition): cursor.offset for cursor in client.committed_cursors(id)}
    say(f"{found.owning_application}/{found.consumer_group}, read from {found.read_from}")
    rows = [
        [name, one.partition, one.stream_id or "nobody", places.get((name, one.partition), ""), _lag(one), _age(one)]
        for name, one in _partitions(stats)
    ]
    print_table(["event type", "partition", "reader", "cursor", "unread", "oldest unread"], rows)


@app.command()
@on_cluster
def reset(
    session: ClusterSession,
    id: SubscriptionId,
    cursor: Annotated[str, typer.Argument(help="Go on after this cursor; BEGIN reads everything again, END nothing old.")],
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", help="EVENT_TYPE/PARTITION; all of them if not given.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Set a subscription to another place. Its open streams end, and their readers begin there.

    Example: meantime subscriptions reset 4a0d2f6e-6f0f-4d0b-9c0c-3b8d6a9a7c11 BEGIN --yes
    """
    from meantime.sdk.model import Cursor

    known = [(name, one.partition) for name, one in _partitions(session.client.subscription_stats(id))]
    chosen = [place for place in known if partition in (None, "/".join(place))]
    if not chosen:
        raise NotFound(f"the subscription has no {partition!r}; it has {', '.join(map('/'.join, known))}")
    confirm(f"Have {partition or 'all partitions'} of {id} go on after {cursor}?", yes)
    session.client.reset_cursors(id, [Cursor(number, cursor, name) for name, number in chosen])
    print_json({"reset": id, "cursor": cursor}) if session.json else say(f"{id} goes on after {cursor}")


@app.command()
@on_cluster
def delete(session: ClusterSession, id: SubscriptionId, yes: Yes = False) -> None:
    """Forget a subscription and its place. Its open streams end.

    Example: meantime subscriptions delete 4a0d2f6e-6f0f-4d0b-9c0c-3b8d6a9a7c11 --yes
    """
    confirm(f"Forget the subscription {id} and how far it is?", yes)
    session.client.delete_subscription(id)
    print_json({"deleted": id}) if session.json else say(f"deleted {id}")


def _partitions(stats: "list[SubscriptionStats]") -> "Iterator[tuple[str, PartitionStats]]":
    for one in stats:
        for partition in one.partitions:
            yield one.event_type, partition


def _lag(one: "PartitionStats") -> str:
    return "?" if one.unconsumed_events is None else f"{one.unconsumed_events:,}"


def _age(one: "PartitionStats") -> str:
    return human(one.consumer_lag_seconds) if one.consumer_lag_seconds else ""
