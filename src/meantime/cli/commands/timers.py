"""The processes that timers are made of, and `meantime timers` to set, cancel and look at them."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meantime.cli.instants import clock_time, from_now, human, readable, seconds, unix_seconds
from meantime.cli.output import on_terminal, print_json, print_line, print_table, say
from meantime.cli.pipeline.options import Bundle
from meantime.cli.session import PANEL, ClusterSession, Data, on_cluster
from meantime.errors import MeantimeError, UnknownTimer

if TYPE_CHECKING:
    from meantime.config import Config
    from meantime.sdk.model import Timer

app = typer.Typer(no_args_is_help=True, help="Timers: call me back at this second.")

Name = Annotated[str | None, typer.Option("--name", help="Name of this process, its own in the cluster; keep it.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="MEANTIME_CONFIG", help="TOML file with settings.")
]
ZooKeeper = Annotated[str | None, typer.Option(help="ZooKeeper as host:port,…", rich_help_panel=PANEL)]
Kafka = Annotated[str | None, typer.Option(help="The Kafka cluster of the default storage.", rich_help_panel=PANEL)]
Postgres = Annotated[str | None, typer.Option(help="PostgreSQL URI.", rich_help_panel=PANEL)]
HealthPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, envvar="MEANTIME_HEALTH_PORT", help="Answer /health and /ready on this port, to anyone."),
]
At = Annotated[int | None, typer.Option("--at", help="Its second, for a token of one's own.")]


def register(root: typer.Typer) -> None:
    for process in (oscillator, futures, dispatcher, ledger):
        root.command(rich_help_panel="Run")(process)
    root.add_typer(app, name="timers", rich_help_panel="Timers")


def _process(kind: str, about: str) -> Callable[..., None]:
    """The command that runs one kind of process; all of them take the same options."""

    def command(
        name: Name = None,
        health_port: HealthPort = None,
        config: ConfigFile = None,
        zookeeper: ZooKeeper = None,
        kafka: Kafka = None,
        postgres: Postgres = None,
        data: Data = None,
    ) -> None:
        from meantime.processes import timers as processes

        settings = _settings(config, data, zookeeper=zookeeper, kafka=kafka, postgres=postgres)
        processes.run(getattr(processes, kind), settings, name or _name(kind), health_port)

    command.__name__ = kind
    command.__doc__ = f"{about}\n\nExample: meantime {kind} --name {kind}-2"
    return command


oscillator = _process("oscillator", "Run an oscillator: one leads and writes the seconds, the others stand by.")
dispatcher = _process(
    "dispatcher", "Run a dispatcher: it holds due timers to their second and fires them. Several share the work."
)
ledger = _process("ledger", "Run a ledger: it books what was requested and how it ended, for lookups and for the balance.")


def futures(
    checkpoint: Annotated[
        str,
        typer.Option(envvar="MEANTIME_CHECKPOINT", help="Where Spark keeps pending timers: a folder, or a URI of its own."),
    ],
    name: Name = None,
    master: Annotated[str | None, typer.Option(envvar="SPARK_MASTER", help="Spark's master; else this machine.")] = None,
    memory: Annotated[str, typer.Option(help="Heap of the driver.")] = "1g",
    partitions: Annotated[int, typer.Option(min=1, help="Tasks that share the join; fixed with the first start.")] = 2,
    batch_every: Annotated[float, typer.Option(min=0.1, help="Seconds between micro-batches.")] = 2.5,
    nice: Annotated[
        int, typer.Option(min=0, max=19, envvar="MEANTIME_FUTURES_NICE", help="How far to step back behind other processes.")
    ] = 10,
    bundle: Bundle = None,
    health_port: HealthPort = None,
    config: ConfigFile = None,
    zookeeper: ZooKeeper = None,
    kafka: Kafka = None,
    postgres: Postgres = None,
    data: Data = None,
) -> None:
    """Run the Spark job that joins seconds with requests. One is enough; a restart resumes from the checkpoint.

    Without a checkpoint all requests are read again; what has fired does not fire again. Spark needs up to a minute to be
    ready; timers for the next minute and a half do not wait for it.

    Example: meantime futures --checkpoint /var/lib/meantime/futures --memory 4g

    Example: meantime futures --master spark://host:7077 --checkpoint s3a://bucket/futures --bundle meantime.zip
    """
    from meantime.pipelines.timers.running import Engine
    from meantime.processes import timers as processes

    settings = _settings(config, data, zookeeper=zookeeper, kafka=kafka, postgres=postgres)
    engine = Engine(master, memory, partitions, nice, bundle)
    work = partial(processes.futures, engine=engine, checkpoint=checkpoint, batch_every=batch_every)
    processes.run(work, settings, name or _name("futures"), health_port)


@app.command("set")
@on_cluster
def set_timer(
    session: ClusterSession,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Kafka topic, or event-type:<name>.")],
    callback: Annotated[str, typer.Argument(metavar="CALLBACK", help="What to send; JSON for an event type.")] = "",
    after: Annotated[str | None, typer.Option("--after", help="How long from now, like 90s or 2h.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="Instant, like 2026-05-01T09:00:00Z or +10m.")] = None,
    callback_key: Annotated[str | None, typer.Option("--callback-key", help="Key of the record.")] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="Name the timer; the same name and second is one timer.")
    ] = None,
) -> None:
    """Set a timer.

    Example: meantime timers set calls 'wake up' --after 10s

    Example: meantime timers set event-type:orders '{"id": 7}' --at 2026-05-01T09:00:00Z --token order-7
    """
    if (after is None) == (at is None):
        raise typer.BadParameter("say when: give either --at or --after")
    when: dict[str, Any] = {"after": seconds(after)} if after else {"at": unix_seconds(at or "", _now(session))}
    made = session.client.timer(topic, callback.encode(), key=callback_key, token=token, **when)
    _show(session, made, f"{made.token} fires at {_when(session, made.at)}")
    if not session.json:
        _warn_if_nobody_fires(session)


@app.command()
@on_cluster
def cancel(session: ClusterSession, token: Annotated[str, typer.Argument(help="The timer's token.")], at: At = None) -> None:
    """Cancel a timer. It says so when it was too late.

    A cancel may come before its timer: it holds for one that is set later, and says that none is known yet.

    Example: meantime timers cancel order-7
    """
    known = _is_known(session, token, at)
    try:
        gone = session.client.cancel(token, at=at)
    except UnknownTimer as error:
        if at is not None:
            raise
        raise UnknownTimer(f"timer {token!r} is unknown; a token of your own may need its second: give --at") from error
    unknown = (
        "" if known else f"; no such timer is known, but should it be set for {_when(session, gone.at)}, it does not fire"
    )
    _show(session, gone, f"{gone.token} is cancelled{unknown}")


def _is_known(session: ClusterSession, token: str, at: int | None) -> bool:
    try:
        session.client.find_timer(token, at=at)
    except UnknownTimer:
        return False
    return True


@app.command()
@on_cluster
def show(session: ClusterSession, token: Annotated[str, typer.Argument(help="The timer's token.")], at: At = None) -> None:
    """What became of a timer.

    Example: meantime timers show order-7
    """
    found = session.client.find_timer(token, at=at)
    why = f" ({found.reason})" if found.reason else ""
    _show(session, found, f"{found.token} at {_when(session, found.at)}: {found.state}{why}")


@app.command()
@on_cluster
def status(session: ClusterSession) -> None:
    """How oscillator, Spark job, dispatchers and ledger are.

    Example: meantime timers status --json
    """
    found = session.client.timer_status()
    if session.json:
        print_json(found)
        return
    rows = [_row(part, name, value) for part, values in found.items() for name, value in values.items()]
    print_table(["part", "what", "value"], rows)


@app.command()
@on_cluster
def load(
    session: ClusterSession,
    start: Annotated[str, typer.Option("--from", help="Instant to begin with.")] = "now",
    span: Annotated[str, typer.Option("--for", help="How far to look, like 10m or 7d.")] = "1h",
    step: Annotated[str, typer.Option("--step", help="Length of a slot.")] = "60s",
) -> None:
    """How many timers are pending, slot by slot, and how many more schedules will set.

    Example: meantime timers load --for 1h --step 5m
    """
    ahead, slot_for = _whole_seconds("--for", span), _whole_seconds("--step", step)
    begin = int(unix_seconds(start, _now(session)))
    slots = session.client.timer_load(begin, begin + ahead, slot_for)
    if session.json:
        print_json({"slots": slots})
        return
    most = max((slot.total for slot in slots), default=0)
    bars = on_terminal() and most
    rows = [
        [
            clock_time(slot.start * 1000),
            slot.pending,
            slot.planned,
            "▇" * round(40 * slot.total / most) if bars else "",
        ]
        for slot in slots
    ]
    print_table(["from", "pending", "planned", f"each {human(slot_for)}"], rows)


@app.command()
def proto() -> None:
    """Print the protobuf schema of a request, for clients that set timers by writing to Kafka themselves.

    Example: meantime timers proto > future.proto
    """
    print_line(files("meantime.timers").joinpath("future.proto").read_text("utf-8").rstrip())


def _settings(file: Path | None, data: Path | None, **flags: str | None) -> "Config":
    """Flags, file and environment come first; then the running stack of the data directory."""
    from meantime import config
    from meantime.stack.discovery import discover

    _, sources = config.load_with_sources(file, os.environ, flags)
    missing = [key for key in flags if key not in sources]
    found = discover(data) if missing else None
    return config.load(file, os.environ, {**flags, **{key: getattr(found, key) for key in missing}})


def _whole_seconds(option: str, text: str) -> int:
    """Timers have seconds, and slots of time are at least one long."""
    asked = seconds(text)
    if asked < 1 or asked % 1:
        raise typer.BadParameter(f"{option} must be 1 s or more, in whole seconds, like 60s; {text!r} is not")
    return int(asked)


def _name(kind: str) -> str:
    return f"{kind}-{socket.gethostname()}-{os.getpid()}"


def _now(session: ClusterSession) -> float:
    if not session.client.core.drift.measured:
        session.client.health()
    return session.client.now()


def _show(session: ClusterSession, timer: "Timer", sentence: str) -> None:
    print_json(timer) if session.json else print_line(sentence)


def _warn_if_nobody_fires(session: ClusterSession) -> None:
    """A timer is kept whoever runs; who sets one while nothing does will wait for it in vain."""
    with suppress(MeantimeError):
        if session.client.timer_status()["dispatcher"]["instances"]:
            return
        say("no dispatcher is running: it fires once there is one; `meantime up` and `meantime dispatcher` start one")


def _when(session: ClusterSession, second: int) -> str:
    return f"{clock_time(second * 1000)} ({from_now(second * 1000, session.client.now() * 1000)})"


def _row(part: str, name: str, value: Any) -> list[str]:
    if value is not None and name == "last_tick":
        value = clock_time(value * 1000)
    elif value is not None and name == "lead_s":
        value = human(value)
    return [part, name.removesuffix("_ms").removesuffix("_s").replace("_", " "), _cell(readable(name, value))]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items() if not isinstance(part, list))
    return "–" if value is None else str(value)
