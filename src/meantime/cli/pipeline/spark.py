"""Spark under a command: started quietly, stopped at the end, and what it says went wrong told in one line.

Java and Spark have a lot to say, over many lines. It goes to a file beside the command, which is kept and named when Spark
fails in a way of its own.
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
    """A session with the listener in place."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from meantime.pipelines.spark.meters import listen

    words = Path(tempfile.gettempdir()) / f"meantime-spark-{os.getpid()}.log"
    spark = _started(name, master, words)
    spark.sparkContext.setLogLevel("ERROR")
    listen(spark)
    failure: MeantimeError | None = None
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        if not stopping():
            failure = _with_words(told(str(error)), words)
            raise failure from error
    finally:
        spark.stop()
        if not isinstance(failure, SparkFailed):
            words.unlink(missing_ok=True)


def _started(name: str, master: str | None, words: Path) -> "SparkSession":
    """Spark puts handlers of its own in place; those that stop a pipeline come back."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from meantime.pipelines.session import session

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with _heirs_write_to(words):
            return session(name, master=master)
    except (PySparkException, Py4JError) as error:
        where = f"--master {master}" if master else "this machine"
        said = words.read_text(errors="replace")
        why = next((line for line in said.splitlines() if line.startswith("Exception in")), str(error))
        raise _with_words(SparkFailed(f"Spark does not start on {where}: {told(why).detail}"), words) from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _heirs_write_to(file: Path) -> Iterator[None]:
    """Processes that are started meanwhile have the file for their standard error."""
    before = os.dup(2)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(opened, 2)
    os.close(opened)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _with_words(error: MeantimeError, words: Path) -> MeantimeError:
    """Only where it was Spark itself does it help to read what Spark says."""
    return SparkFailed(f"{error.detail} (more of it in {words})") if isinstance(error, SparkFailed) else error


def told(text: str) -> MeantimeError:
    """The error of ours that Spark tells about, so that it ends the command as it would have without Spark in between."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for found in filter(None, map(_OURS.match, lines)):
        return _KINDS.get(found["name"], SparkFailed)(found["detail"])
    said = [line for line in lines if not line.startswith(_CALL)]
    return SparkFailed(_CLASS.sub("", said[0]) if said else None)
