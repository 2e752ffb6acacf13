"""Spark under a command: started quietly, stopped at the end, and its errors said in one line.

Java and Spark write many lines. They go to a log file in the temporary folder, which is kept and named when Spark itself
fails.
"""

import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import Conflict, Invalid, MeantimeError, NotFound, StorageUnavailable, Unreachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = re.compile(r"meantime\.errors\.(?P<name>\w+): (?P<detail>.*)")
_KINDS: Mapping[str, type[MeantimeError]] = {
    kind.__name__: kind for kind in (Conflict, Invalid, NotFound, StorageUnavailable, Unreachable)
}
_CALL = "An error occurred while calling"
_CLASS = re.compile(r"^(Exception in thread \S+ )?:? ?([\w.$]+(Exception|Error): )?")


class SparkFailed(MeantimeError):
    """Spark gave up."""

    code = "spark"


@contextmanager
def starting_spark(name: str, master: str | None, stopping: Callable[[], bool]) -> "Iterator[SparkSession]":
    """A session whose streams report their progress; stopped at the end."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from meantime.pipelines.spark.meters import listen

    log_file = Path(tempfile.gettempdir()) / f"meantime-spark-{os.getpid()}.log"
    spark = _started(name, master, log_file)
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


def _started(name: str, master: str | None, log_file: Path) -> "SparkSession":
    """Spark installs signal handlers of its own; those that stop a pipeline are put back."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from meantime.pipelines.session import session

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with _children_log_to(log_file):
            return session(name, master=master)
    except (PySparkException, Py4JError) as error:
        where = f"--master {master}" if master else "this machine"
        output = log_file.read_text(errors="replace")
        why = next((line for line in output.splitlines() if line.startswith("Exception in")), str(error))
        raise _naming_log(SparkFailed(f"Spark does not start on {where}: {error_of(why).detail}"), log_file) from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for found in filter(None, map(_OURS.match, lines)):
        return _KINDS.get(found["name"], SparkFailed)(found["detail"])
    rest = [line for line in lines if not line.startswith(_CALL)]
    return SparkFailed(_CLASS.sub("", rest[0]) if rest else None)
