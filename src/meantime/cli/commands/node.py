"""The commands that run, set up and look at nodes: `node`, `nodes`, `migrate`, `config`, `keys`."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from meantime import config as settings
from meantime.cli.instants import clock_time
from meantime.cli.output import print_json, print_table
from meantime.cli.session import ClusterSession, Data, on_cluster

T = TypeVar("T")

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="MEANTIME_CONFIG", help="TOML file with settings.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

keys = typer.Typer(no_args_is_help=True, help="API keys: make, list and revoke them.")


def register(app: typer.Typer) -> None:
    app.command()(node)
    app.command(rich_help_panel="Run")(nodes)
    app.command()(migrate)
    app.command()(config)
    app.command()(demo)
    app.add_typer(keys, name="keys", rich_help_panel="Run")


def node(
    config: ConfigFile = None,
    id: Annotated[str | None, typer.Option(help="Name of the node; keep it over restarts.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="HTTP port.")] = None,
    zookeeper: Annotated[str | None, typer.Option(help="ZooKeeper as host:port,…")] = None,
    kafka: Annotated[str | None, typer.Option(help="Kafka clusters; brokers by ',', clusters by ';'.")] = None,
    postgres: Annotated[str | None, typer.Option(help="PostgreSQL URI.")] = None,
    auth: Annotated[bool | None, typer.Option("--auth/--no-auth", help="Ask for API keys.")] = None,
    tls_cert: Annotated[str | None, typer.Option(help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Private key (PEM).")] = None,
    insecure: Annotated[
        bool | None, typer.Option("--insecure/--secure", help="Take keys without TLS beyond loopback.")
    ] = None,
    clock_skew_ms: Annotated[int | None, typer.Option(help="For tests: make the clock wrong.")] = None,
    clock_skew_for: Annotated[float | None, typer.Option(help="For tests: seconds until it is right again.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json or console.")] = None,
) -> None:
    """Run one node in the foreground. SIGTERM and Ctrl-C stop it after what is in flight.

    Every setting can also come from a file or the environment: see `meantime config`.

    Example: meantime node --id node-1 --port 8080 --zookeeper zk:2181 --kafka kafka:9092 --postgres postgresql://db/meantime
    """
    from meantime.processes.node import run_node

    flags = {key: value for key, value in locals().items() if key in settings.Config.__struct_fields__}
    run_node(settings.load(config, os.environ, flags))


@on_cluster
def nodes(session: ClusterSession) -> None:
    """Show the nodes of a cluster: state, clock, what is wrong. Works for a remote cluster too.

    Example: meantime nodes --url https://meantime.example:8443
    """
    found = session.client.nodes()
    if session.json:
        print_json(found)
        return
    rows = [[one.id, one.url, one.state, _offset(one.clock_offset_ms), _reasons(one.reasons), one.release] for one in found]
    print_table(["node", "url", "state", "clock", "why", "release"], rows)


def _offset(offset_ms: float | None) -> str:
    return "" if offset_ms is None else f"{offset_ms:+.1f} ms"


def _reasons(reasons: list[Any]) -> str:
    return "; ".join(
        str(one.get("detail") or one.get("code") or one) if isinstance(one, dict) else str(one) for one in reasons
    )


def migrate(
    postgres: Annotated[str | None, typer.Option(help="PostgreSQL URI.")] = None,
    config: ConfigFile = None,
    first_key: Annotated[
        str | None,
        typer.Option(
            envvar="MEANTIME_FIRST_KEY",
            help="A key of your own making that may do everything, as mt_<8 hex digits>_<32 or more characters>.",
        ),
    ] = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Bring the database schema up to date. Safe to run from many places at once.

    An installation without people gives a first key in the environment; it is made valid, unless it is known already.

    Example: meantime migrate --postgres postgresql://db/meantime
    """
    from meantime.database.migrate import migrate as apply

    applied = apply(_postgres(postgres, config, data))
    if first_key:
        _with_keys(postgres, config, data, lambda store: store.ensure("first", ["admin"], first_key, _now_ms()))
    if json:
        print_json({"applied": applied})
    else:
        typer.echo("\n".join(f"applied {name}" for name in applied) or "the schema is up to date")


def config(config: ConfigFile = None, json: Json = False) -> None:
    """Show every setting: its meaning, its value and where that came from.

    Example: MEANTIME_PORT=9000 meantime config
    """
    values, sources = settings.load_with_sources(config, os.environ, {})
    described = settings.describe(values, sources)
    if json:
        print_json([asdict(setting) for setting in described])
        return
    rows = [[setting.key, str(setting.value), setting.source, setting.about] for setting in described]
    print_table(["key", "value", "from", "meaning"], rows)


def demo() -> None:
    """Take the tour: a whole system is started, shown, broken on purpose, and stopped. Some minutes; nothing is left.

    Example: meantime demo
    """
    from meantime.tour.play import play

    play()


@keys.command("add")
def keys_add(
    name: Annotated[str, typer.Argument(help="What to call it, e.g. billing-service.")],
    scope: Annotated[list[str], typer.Option("--scope", "-s", help="What it may do; repeat for several.")],
    postgres: Annotated[str | None, typer.Option(help="PostgreSQL URI.")] = None,
    config: ConfigFile = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Make a key. It is shown once and stored only as a digest.

    Scopes: admin, look (see everything but bodies), look:bodies, publish:<event type>, read:<event type>, produce:<group>,
    consume:<topic>, operate:<topic>, timers, callback:<Kafka topic>, apps, metrics; `*` in a name stands for anything.
    Timers that call back event-type:<name> also need publish:<name>.

    Example: meantime keys add billing -s publish:orders -s 'read:orders.*'
    """
    id, key = _with_keys(postgres, config, data, lambda store: store.add(name, scope, _now_ms()))
    _audited(postgres, config, data, "create", id, {"name": name, "scopes": scope})
    if json:
        print_json({"id": id, "name": name, "scopes": scope, "key": key})
    else:
        typer.echo(f"{key}\n\nKeep it now: it cannot be shown again. Revoke it with `meantime keys revoke {id}`.")


@keys.command("list")
def keys_list(
    postgres: Annotated[str | None, typer.Option(help="PostgreSQL URI.")] = None,
    config: ConfigFile = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """List the keys, the revoked ones too. The keys themselves are not stored.

    Example: meantime keys list --json
    """
    found = _with_keys(postgres, config, data, lambda store: store.list())
    if json:
        print_json([asdict(key) for key in found])
        return
    rows = [
        [
            key.id,
            key.name,
            " ".join(key.scopes),
            "revoked" if key.revoked_ms else "valid",
            clock_time(key.created_ms),
            clock_time(key.revoked_ms) if key.revoked_ms else "",
        ]
        for key in found
    ]
    print_table(["id", "name", "scopes", "state", "made", "revoked"], rows)


@keys.command("revoke")
def keys_revoke(
    id: Annotated[str, typer.Argument(help="The id that `keys list` shows.")],
    postgres: Annotated[str | None, typer.Option(help="PostgreSQL URI.")] = None,
    config: ConfigFile = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Revoke a key. It stops working on every node at once.

    Example: meantime keys revoke 3f2a91bc
    """
    _with_keys(postgres, config, data, lambda store: store.revoke(id, _now_ms()))
    _audited(postgres, config, data, "revoke", id, {})
    print_json({"revoked": id}) if json else typer.echo(f"revoked {id}")


def _postgres(flag: str | None, file: Path | None, data: Path | None) -> str:
    """Flag, file and environment come first; then the running stack of the data directory."""
    from meantime.stack.discovery import discover

    values, sources = settings.load_with_sources(file, os.environ, {"postgres": flag})
    return values.postgres if "postgres" in sources else discover(data).postgres


def _with_keys(
    postgres: str | None, file: Path | None, data: Path | None, act: Callable[[Any], Coroutine[Any, Any, T]]
) -> T:
    from meantime.access.keys import Keys

    return _on_database(_postgres(postgres, file, data), lambda database: act(Keys(database)))


def _audited(
    postgres: str | None, file: Path | None, data: Path | None, action: str, id: str, detail: dict[str, Any]
) -> None:
    """What is done with keys from here passes no node."""
    from meantime.audit.audit_store import AuditLog
    from meantime.clock import SystemClock

    def write(database: Any) -> Coroutine[Any, Any, None]:
        log = AuditLog(database, SystemClock(), 0)
        return log.record(f"command line of {getuser()}", action, f"keys/{id}", None, detail)

    _on_database(_postgres(postgres, file, data), write)


def _on_database(uri: str, act: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
    from meantime.database.pool import open_database

    async def run() -> T:
        async with open_database(uri, size=2) as database:
            return await act(database)

    return asyncio.run(run())


def _now_ms() -> int:
    from meantime.clock import SystemClock

    return SystemClock().now_ms()
