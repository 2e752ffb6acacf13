"""`meantime storages`: the Kafka clusters that event types live on."""

from typing import Annotated

import typer

from meantime.cli.output import print_json, print_table, say
from meantime.cli.session import ClusterSession, StorageName, Yes, confirm, on_cluster

app = typer.Typer(no_args_is_help=True, help="Storages: the Kafka clusters that event types live on.")


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="storages", rich_help_panel="Streams")


@app.command("list")
@on_cluster
def list_all(session: ClusterSession) -> None:
    """List the storages.

    Example: meantime storages list
    """
    found = session.client.storages()
    if session.json:
        print_json(found)
        return
    rows = [[s.id, s.storage_type, s.kafka_configuration.bootstrap_servers, "yes" if s.default else ""] for s in found]
    print_table(["id", "type", "bootstrap servers", "default"], rows)


@app.command()
@on_cluster
def show(session: ClusterSession, id: StorageName) -> None:
    """Show one storage. Secrets are never shown.

    Example: meantime storages show east
    """
    found = session.client.storage(id)
    if session.json:
        print_json(found)
        return
    settings = [[name, value] for name, value in found.kafka_configuration.settings.items()]
    servers = found.kafka_configuration.bootstrap_servers
    print_table([found.id, ""], [["bootstrap servers", servers], ["default", found.default], *settings])


@app.command()
@on_cluster
def add(
    session: ClusterSession,
    id: StorageName,
    bootstrap_servers: Annotated[str, typer.Argument(metavar="HOST:PORT,…", help="Brokers of the cluster.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A librdkafka setting as NAME=VALUE; repeat for several.")
    ] = None,
) -> None:
    """Register a Kafka cluster. It is asked for an answer before it is taken.

    Example: meantime storages add east kafka-1:9092,kafka-2:9092 --set security.protocol=SSL
    """
    pairs = [text.partition("=") for text in setting or []]
    if any(not separator for _, separator, _ in pairs):
        raise typer.BadParameter("write settings as NAME=VALUE")
    session.client.create_storage(id, bootstrap_servers, settings={name: value for name, _, value in pairs} or None)
    _done(session, "added", id)


@app.command()
@on_cluster
def delete(session: ClusterSession, id: StorageName, yes: Yes = False) -> None:
    """Forget a Kafka cluster. Refused while it is used or the default.

    Example: meantime storages delete east --yes
    """
    confirm(f"Forget the storage {id!r}?", yes)
    session.client.delete_storage(id)
    _done(session, "deleted", id)


@app.command()
@on_cluster
def default(session: ClusterSession, id: StorageName) -> None:
    """Let new event types go to this storage.

    Example: meantime storages default east
    """
    session.client.use_storage_by_default(id)
    _done(session, "default", id)


def _done(session: ClusterSession, verb: str, id: str) -> None:
    if session.json:
        print_json({verb: id})
    else:
        say(f"{id} is the default now" if verb == "default" else f"{verb} {id}")
