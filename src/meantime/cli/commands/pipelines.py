"""`meantime pipeline`: data between Kafka, topics, event types and files, by Spark."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meantime.cli.exit_codes import PARTLY
from meantime.cli.instants import clock_time, human, unix_seconds
from meantime.cli.output import on_terminal, print_json, print_rich, print_table, say
from meantime.cli.pipeline.options import Bundle, duration, writable_file, writable_folder
from meantime.cli.pipeline.runs import PipelineCluster, counting, find_cluster, running, signals
from meantime.cli.pipeline.spark import SparkEngine, announce, need_spark, starting_spark
from meantime.cli.session import Data, Json, Key, Url

if TYPE_CHECKING:
    from meantime.pipelines.buffer.buffer import BufferOptions
    from meantime.pipelines.forecast.forecast import Forecast
    from meantime.sdk.messages import Slot

pipeline = typer.Typer(
    no_args_is_help=True,
    help="Pipelines: buffer, archive and schedule on Spark, which takes about ten seconds to start; forecast.",
)

Master = Annotated[
    str | None, typer.Option("--master", envvar="SPARK_MASTER", help="Where Spark runs, like local[4] or spark://host:7077.")
]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", help="Folder of its checkpoints, or s3a://bucket/folder; else below the data directory."),
]
Once = Annotated[bool, typer.Option("--once", help="Do what there is to do by now, then stop.")]
MetricsPort = Annotated[int | None, typer.Option("--metrics-port", help="Serve metrics for Prometheus on this port.")]
Step = Annotated[str | None, typer.Option("--step", help="Length of a slot; chosen to fit if not given.")]


def register(root: typer.Typer) -> None:
    root.add_typer(pipeline, name="pipeline", rich_help_panel="Pipelines")


@pipeline.command()
def buffer(
    source: Annotated[str, typer.Option("--from", help="Kafka topic of the default storage, or event-type:<name>.")],
    target: Annotated[str, typer.Option("--to", help="Kafka topic of the default storage, or event-type:<name>.")],
    delay: Annotated[str, typer.Option("--delay", help="How much later, like 4h or 90s.")],
    starting: Annotated[str, typer.Option(help="Where a new buffer begins to read: begin or end.")] = "begin",
    remember: Annotated[
        str, typer.Option(help="How long ids of delivered records are kept; a replay must come within it.")
    ] = "1d",
    only: Annotated[str | None, typer.Option(help="Run one half: in or out.")] = None,
    master: Master = None,
    bundle: Bundle = None,
    checkpoint: Checkpoint = None,
    once: Once = False,
    metrics_port: MetricsPort = None,
    url: Url = None,
    key: Key = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Put time between two topics: each record comes out at its timestamp plus the delay, with key, value and headers.

    The same command again goes on where it stopped, also after a crash. Ctrl-C and SIGTERM stop it cleanly. Spark starts
    first, which takes about ten seconds; what is due leaves meanwhile.

    Example: meantime pipeline buffer --from orders --to orders-later --delay 4h

    Example: meantime pipeline buffer --from event-type:orders --to event-type:reminders --delay 7d
    """
    if only != "out":
        need_spark("buffer")
    from meantime.pipelines.buffer.buffer import BufferOptions, check, prepare
    from meantime.pipelines.buffer.model import buffer_name, endpoint
    from meantime.pipelines.spark.broker import client_of
    from meantime.pipelines.spark.places import address_of, place_of

    if starting not in ("begin", "end"):
        raise typer.BadParameter("--starting is begin or end")
    if only not in (None, "in", "out"):
        raise typer.BadParameter("--only is in or out")
    wait = duration(delay, "--delay")
    found = find_cluster(url, key, data, metrics_port)
    ends = endpoint(source, "--from"), endpoint(target, "--to")
    folder = place_of(checkpoint or found.checkpoints / buffer_name(*ends).replace(":", "."), "--checkpoint")
    options = BufferOptions(
        found.broker, *ends, wait, folder, found.postgres, starting, duration(remember, "--remember"), once
    )
    with client_of(found.broker) as client:
        check(client, options)
        writable_folder(folder, "--checkpoint")
        prepare(client, options)
    _run_buffer(options, only, SparkEngine(options.topic, master, bundle, (address_of(folder),)), json)


def _run_buffer(options: "BufferOptions", only: str | None, engine: SparkEngine, json: bool) -> None:
    from meantime.pipelines.buffer.buffer import run_both, run_in, run_out
    from meantime.pipelines.spark.meters import BufferLateness

    lateness = BufferLateness()
    with running() as stopping:
        plan = f"{options.topic}: {options.source} → {human(options.delay)} → {options.target}"
        say(plan) if only == "out" else announce(plan)
        if only == "out":
            run_out(options, stopping, lateness)
        elif only == "in":
            with starting_spark(engine, stopping) as spark:
                run_in(spark, options, stopping)
        else:
            run_both(lambda: starting_spark(engine, stopping), options, stopping, lateness)
    report = lateness.report()
    if json:
        print_json({"topic": options.topic, **report})
    elif report["messages"]:
        say(", ".join(f"{name} {value}" for name, value in report.items()))


@pipeline.command()
def archive(
    event_types: Annotated[list[str], typer.Argument(metavar="EVENT_TYPE...", help="What to archive.")],
    to: Annotated[str, typer.Option("--to", help="Folder of the archive, seen by every executor, or s3a://bucket/folder.")],
    every: Annotated[str, typer.Option(help="How often to look for new events.")] = "1m",
    max_rows: Annotated[int, typer.Option(min=1, help="Most events in one batch.")] = 1_000_000,
    compact: Annotated[
        bool, typer.Option("--compact/--no-compact", help="Merge small files of hours that are over.")
    ] = True,
    hold: Annotated[
        bool | None,
        typer.Option("--hold/--no-hold", help="Let clean-up of closed timelines wait until they are in this archive."),
    ] = None,
    master: Master = None,
    bundle: Bundle = None,
    checkpoint: Checkpoint = None,
    once: Once = False,
    metrics_port: MetricsPort = None,
    url: Url = None,
    key: Key = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Write event types to Parquet files by event type, date and hour; each event once, however often this is interrupted.

    The archive keeps its progress in its own folder (`_meantime`), so --checkpoint is not needed. Spark starts first, which
    takes about ten seconds.

    Example: meantime pipeline archive orders payments --to /data/archive --once
    """
    need_spark("archive")
    from meantime.pipelines.archive.archive import ArchiveOptions, Archiver
    from meantime.pipelines.archive.compaction import compact as merge
    from meantime.pipelines.archive.compaction import finish
    from meantime.pipelines.archive.journal import FOLDER
    from meantime.pipelines.spark.broker import client_of
    from meantime.pipelines.spark.places import address_of, lock_file, place_of
    from meantime.stack.file_lock import file_lock

    pause = duration(every, "--every")
    if checkpoint:
        raise typer.BadParameter("--checkpoint: an archive keeps its progress in its own folder, _meantime")
    found = find_cluster(url, key, data, metrics_port)
    folder = place_of(to, "--to")
    options = ArchiveOptions(folder, max_rows, hold=hold, postgres=found.postgres)
    with client_of(found.broker) as client:
        for name in event_types:
            client.event_type(name)
    writable_folder(folder, "--to")
    lock = file_lock(lock_file(folder / FOLDER, "lock"), busy=f"another process writes to the archive {to}")
    with running() as stopping, client_of(found.broker) as client, lock:
        totals = dict.fromkeys(event_types, 0)
        announce(f"archive: {', '.join(event_types)} → {to}" + (", what there is by now" if once else f", every {every}"))
        with starting_spark(SparkEngine("archive", master, bundle, (address_of(folder),)), stopping) as spark:
            tasks = [Archiver(spark, client, name, options) for name in event_types]
            while True:
                for task in tasks:
                    finish(task.journal)
                    totals[task.event_type] += task.run(stopping)
                    if compact and not stopping():
                        merge(task.journal, datetime.now(UTC))
                if once or stopping() or signals.wait(pause):
                    break
    if json:
        print_json({"archived": totals, "total": {task.event_type: task.journal.rows() for task in tasks}})
        return
    for task in tasks:
        say(f"{task.event_type}: archived {totals[task.event_type]:,} events, {task.journal.rows():,} in all")


@pipeline.command()
def schedule(
    files: Annotated[list[Path], typer.Argument(help="CSV, JSON lines or Parquet; all of one kind.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to schedule to.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the load that it would make.")] = False,
    rejects: Annotated[
        Path | None,
        typer.Option("--rejects", help="Put refused rows here, as they stood in the file and with the reason, and go on."),
    ] = None,
    step: Step = None,
    group: Annotated[
        str, typer.Option("--group", "-g", envvar="MEANTIME_PRODUCER_GROUP", help="Producer group that owns the messages.")
    ] = "default",
    master: Master = None,
    bundle: Bundle = None,
    url: Url = None,
    key: Key = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Schedule a table. Columns: id, at (RFC 3339) or at_ms or after_ms, body; without body all others make it.

    With ids it can be repeated: what exists stays as it is. Without --rejects one bad row stops it. Exit code 9 if rows were
    refused.

    Spark starts first, which takes about ten seconds. For CSV or JSON lines of up to some hundred thousand rows
    `meantime schedule TOPIC --file FILE` is quicker, and needs no Spark.

    Example: meantime pipeline schedule campaign.csv --topic reminders --dry-run
    """
    need_spark("schedule")
    from meantime.pipelines.spark.broker import client_of
    from meantime.pipelines.topics.files import check_files, messages, read_files

    check_files(files)
    slot_for = duration(step, "--step") if step else None
    if rejects:
        writable_file(rejects, "--rejects")
    found = find_cluster(url, key, data, None, group)
    with running() as stopping, client_of(found.broker) as client:
        client.topic(topic)
        announce(f"schedule: {', '.join(file.name for file in files[:3])}{' …' * (len(files) > 3)} → topic {topic}")
        from meantime.pipelines.topics.writer import write_topic

        with starting_spark(SparkEngine("schedule", master, bundle), stopping) as spark:
            rows = messages(read_files(spark, files), keep_original=rejects is not None)
            if dry_run:
                _show_plan(found, topic, rows, slot_for, json)
                return
            began = time.monotonic()
            options = found.source_options() | ({"rejects": str(rejects.absolute())} if rejects else {})
            with counting(f"messages in {topic}", lambda: client.count(topic)):
                tally = write_topic(rows, topic, **options)
            took = time.monotonic() - began
    if json:
        print_json(
            {"created": tally.created, "exists": tally.exists, "rejected": tally.rejected, "took_ms": round(took * 1000)}
        )
    else:
        rate = (tally.created + tally.exists) / max(took, 1e-9)
        counts = f"created {tally.created:,}, existed {tally.exists:,}, rejected {tally.rejected:,}"
        say(f"{counts} in {human(took)} ({rate:,.0f}/s)")
    if tally.rejected:
        raise typer.Exit(PARTLY)


def _show_plan(found: PipelineCluster, topic: str, rows: object, step: float | None, json: bool) -> None:
    """The load that is there, and what would come on top of it."""
    from meantime.cli.commands.topics.load import chart, fitting_step
    from meantime.pipelines.forecast.forecast import with_planned
    from meantime.pipelines.spark.broker import client_of
    from meantime.pipelines.topics.files import planned

    with client_of(found.broker) as client:
        now_ms = client.clock().now_ms
        found_slots = planned(rows, now_ms, 1000)  # type: ignore[arg-type]
        horizon_ms = now_ms + (client.topic(topic).max_future_ms or 0)
        fine = {slot: count for slot, count in found_slots.items() if slot is not None and slot <= horizon_ms}
        refused = sum(found_slots.values()) - sum(fine.values())
        ahead = max(60.0, (max(fine, default=now_ms) - now_ms) / 1000 + 1)
        slot_for = step or fitting_step(ahead)
        begin = now_ms / 1000 - now_ms / 1000 % slot_for
        present = client.load(topic, begin, begin + min(ahead + slot_for, 10_000 * slot_for), slot_for)
    slots: list[Slot] = with_planned(present, fine, round(slot_for * 1000))
    if json:
        print_json(
            {
                "topic": topic,
                "step_ms": round(slot_for * 1000),
                "new": sum(fine.values()),
                "refused": refused,
                "slots": slots,
            }
        )
    elif on_terminal():
        print_rich(chart(f"{topic} (dry run)", slots, slot_for, now_ms / 1000))
    else:
        rows_shown = [[clock_time(slot.from_ms), slot.available, slot.waiting] for slot in slots]
        print_table(["from", "present", "new"], rows_shown)
    if refused:
        say(f"{refused:,} rows would be refused: their instant cannot be read or lies too far ahead")


@pipeline.command()
def forecast(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="All topics and timers if none.")] = None,
    span: Annotated[str, typer.Option("--for", help="How far to look, like 10m or 7d.")] = "1d",
    start: Annotated[str, typer.Option("--from", help="Instant to begin with.")] = "now",
    step: Step = None,
    capacity: Annotated[
        float | None, typer.Option(min=0, help="Messages per second that consumers can do, if you know it.")
    ] = None,
    archive: Annotated[str | None, typer.Option(help="Folder of an archive, for rates of the past.")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw it into this PNG file; needs meantime[plot].")] = None,
    url: Url = None,
    key: Key = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Show the load to come over all topics and timers, and where it is more than consumers have shown they can do.

    Example: meantime pipeline forecast --for 7d --archive /data/archive --png week.png
    """
    from meantime.cli.commands.topics.load import fitting_step
    from meantime.pipelines.forecast.chart import bar_chart, need_matplotlib
    from meantime.pipelines.forecast.forecast import forecast as load_to_come
    from meantime.pipelines.spark.broker import client_of
    from meantime.pipelines.spark.places import place_of

    if png:
        need_matplotlib()
        writable_file(png, "--png")
    found = find_cluster(url, key, data, None)
    ahead = duration(span, "--for")
    slot_for = duration(step, "--step") if step else max(1.0, fitting_step(ahead))
    with client_of(found.broker) as client:
        begin = unix_seconds(start, client.clock().now_ms / 1000)
        begin -= begin % slot_for
        past = place_of(archive, "--archive") if archive else None
        coming = load_to_come(client, topics or [], (begin, ahead, slot_for), capacity, past)
    if png:
        png.write_bytes(bar_chart(coming, human(slot_for)))
    print_json(coming) if json else _show_forecast(coming)


@pipeline.command()
def bundle(
    file: Annotated[Path, typer.Argument(help="The archive to write, like meantime.zip.")],
    json: Json = False,
) -> None:
    """Pack this package and what it needs for executors of a Spark cluster that do not have it.

    They need the same version of Python on the same kind of machine. Commands that run on Spark take it by --bundle.

    Example: meantime pipeline bundle meantime.zip
    """
    from meantime.pipelines.spark.bundle import FOLDER, make_bundle

    if file.suffix != ".zip":
        raise typer.BadParameter("name a file *.zip: Spark knows by the name how to unpack it", param_hint="FILE")
    size = make_bundle(writable_file(file, "FILE"))
    if json:
        print_json({"file": str(file), "bytes": size})
    else:
        submitted = f"--archives {file}#{FOLDER} --conf spark.executorEnv.PYTHONPATH={FOLDER}"
        say(f"{file}: {size / 1e6:,.0f} MB; commands take it by --bundle, spark-submit by {submitted}")


def _show_forecast(coming: "Forecast") -> None:
    columns = ["from", *(one.name for one in coming.series)]
    slots = max((len(one.counts) for one in coming.series), default=0)
    rows = [
        [clock_time(coming.from_ms + index * coming.step_ms), *(one.counts[index] or "" for one in coming.series)]
        for index in range(slots)
    ]
    print_table(columns, rows)
    for one in coming.past:
        say(f"{one.event_type}: {one.mean:,.2f} events/s over {one.hours} h, {one.peak:,.2f}/s in the busiest hour")
    for warning in coming.warnings:
        say(
            f"warning: {warning.name} has {warning.due:,} due from {clock_time(warning.from_ms)}, "
            f"consumers have shown {warning.capacity:,}"
        )
    sys.stdout.flush()
