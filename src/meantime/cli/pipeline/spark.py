"""Spark under a command: started with words about what is to come, stopped at the end, and its errors said in one line.

Java and Spark write many lines. They go to a log file in the temporary folder, which is kept and named when Spark itself
fails.
"""

import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.cli.output import say
from meantime.errors import MeantimeError
from meantime.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CALL = "An error occurred while calling"
_CLASS = re.compile(r"^(Exception in thread \S+ )?:? ?([\w.$]+(Exception|Error): )?")
_TASK = re.compile(r"^.*most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """What a command starts: a session by its name, where it runs, the addresses that it uses, and executors' package."""

    name: str
    master: str | None = None
    bundle: str | None = None
    uses: tuple[str, ...] = ()


class SparkFailed(MeantimeError):
    """Spark gave up."""

    code = "spark"


def need_spark(command: str) -> None:
    """Asked before anything else: without Spark there is no use in looking at the rest."""
    require("spark", f"meantime pipeline {command}", "pyspark", "pyarrow")


def announce(what: str) -> None:
    """What a command will do, said before Spark is even loaded."""
    say(f"{what}; Spark starts first, which takes about ten seconds")


@contextmanager
def starting_spark(engine: SparkEngine, stopping: Callable[[], bool]) -> "Iterator[SparkSession]":
    """A session whose streams report their progress; stopped at the end."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from meantime.pipelines.spark.meters import listen

    log_file = Path(tempfile.gettempdir()) / f"meantime-spark-{os.getpid()}.log"
    spark = _started(engine, log_file)
    spark.sparkContext.setLogLevel("ERROR")
    listen(spark)
    failure: MeantimeError | None = None
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        if not stopping():
            failure = _naming_log(error_of(str(error)), log_file)
            raise failure from error
    finally:
        spark.stop()
        if not isinstance(failure, SparkFailed):
            log_file.unlink(missing_ok=True)


def _started(engine: SparkEngine, log_file: Path) -> "SparkSession":
    """Spark installs signal handlers of its own; those that stop a pipeline are put back."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from meantime.pipelines.session import session

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with _elapsed("Spark starts"), _children_log_to(log_file):
            return session(engine.name, master=engine.master, uses=engine.uses, bundle=engine.bundle)
    except (PySparkException, Py4JError) as error:
        where = f"--master {engine.master}" if engine.master else "this machine"
        output = log_file.read_text(errors="replace")
        why = next((line for line in output.splitlines() if line.startswith("Exception in")), str(error))
        raise _naming_log(SparkFailed(f"Spark does not start on {where}: {error_of(why).detail}"), log_file) from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _elapsed(what: str, every: float = 1.0) -> Iterator[None]:
    """On a terminal, how many seconds it has taken so far."""
    if not sys.stderr.isatty():
        yield
        return
    began, done = time.monotonic(), threading.Event()
    terminal = os.dup(2)  # of its own: standard error of the process goes elsewhere meanwhile

    def watch() -> None:
        while not done.wait(every):
            os.write(terminal, f"\r{what}: {time.monotonic() - began:.0f} s ".encode())
        os.write(terminal, b"\r\x1b[K")
        os.close(terminal)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


@contextmanager
def _children_log_to(file: Path) -> Iterator[None]:
    """Processes that are started meanwhile write their standard error to the file."""
    before = os.dup(2)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(opened, 2)
    os.close(opened)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _naming_log(error: MeantimeError, log_file: Path) -> MeantimeError:
    """The log helps only where Spark itself failed."""
    return SparkFailed(f"{error.detail} (Spark's log: {log_file})") if isinstance(error, SparkFailed) else error


def error_of(text: str) -> MeantimeError:
    """The error of ours inside Spark's message, so that the command ends as it would have without Spark in between."""
    from meantime.pipelines.spark.causes import cause_of

    if ours := cause_of(text):
        return ours
    rest = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_CALL)]
    return SparkFailed(_CLASS.sub("", _TASK.sub("", rest[0])) if rest else None)
