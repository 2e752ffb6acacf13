"""What all pipeline commands do: find the cluster, stop on signals, show how a number grows."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.cli.pipeline.options import serve_metrics
from meantime.errors import MeantimeError, StackError

if TYPE_CHECKING:
    from rich.status import Status

    from meantime.pipelines.spark.broker import Broker

signals = threading.Event()
"""Set by SIGTERM and Ctrl-C."""


@dataclass(frozen=True, slots=True)
class PipelineCluster:
    """Where a pipeline finds the API and the database, and where it keeps checkpoints."""

    broker: "Broker"
    postgres: str | None
    checkpoints: Path

    def source_options(self) -> dict[str, str]:
        """The cluster, as options of the Spark sources."""
        options = {
            "url": self.broker.url,
            "key": self.broker.key,
            "postgres": self.postgres,
            "producer_group": self.broker.producer_group,
        }
        return {name: value for name, value in options.items() if value}


def find_cluster(
    url: str | None, key: str | None, data: Path | None, metrics_port: int | None, group: str = "default"
) -> PipelineCluster:
    """By flags, environment, or the running stack. A cluster named by --url is not taken to share this stack's database."""
    from meantime.pipelines.spark.broker import Broker
    from meantime.sdk.trust import CA, may_be_insecure
    from meantime.stack.discovery import discover

    addresses = discover(data)
    nodes = url or ",".join(addresses.urls)
    try:
        postgres = addresses.postgres if not url or addresses.environment.get("MEANTIME_POSTGRES") else None
    except StackError:
        postgres = None
    if metrics_port:
        serve_metrics(metrics_port)
    broker = Broker(nodes, key or addresses.key, group, os.environ.get(CA), may_be_insecure(None))
    return PipelineCluster(broker, postgres, addresses.folder / "pipelines")


@contextmanager
def running() -> Iterator[Callable[[], bool]]:
    """Yields whether it is time to stop."""
    from meantime import logs

    logs.configure("info", "console" if sys.stderr.isatty() else "json")
    before = {number: signal.signal(number, lambda *_: signals.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signals.clear()


@contextmanager
def counting(what: str, count: Callable[[], int], every: float = 2.0) -> Iterator[None]:
    """Shows how a number grows, on a terminal. Tasks run elsewhere, so the number is asked for where they write to."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    done, console = threading.Event(), Console(stderr=True)

    def watch(status: "Status") -> None:
        while not done.wait(every):
            with suppress(MeantimeError):
                status.update(f"{count():,} {what}")

    with console.status(what) as status:
        watching = threading.Thread(target=watch, args=(status,), daemon=True)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()
