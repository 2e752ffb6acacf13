"""Trial runs of the processes on Java, each by a process of its own: `python -m meantime.stack.class_archives kafka`.

It ends by itself when the classes are prepared, or cannot be. Stopped before, it takes what it has started along.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.stack import ports
from meantime.stack.folder import Folder
from meantime.stack.java.classes import Classes, spark_classes
from meantime.stack.java.jars import ensure_jars
from meantime.stack.java.runtime import Java, find_java, spark_java_home
from meantime.stack.model import Spec
from meantime.stack.services import kafka, zookeeper

SERVICES = ("zookeeper", "kafka", "futures")
"""Kinds of processes whose classes can be prepared."""
READY_WITHIN = 90.0
SPARK_WITHIN = 300.0


def trial_spec(folder: Folder, kind: str, *, late: bool) -> Spec:
    return Spec(
        kind="classes",
        name=f"classes-{kind}",
        command=(sys.executable, "-m", "meantime.stack.class_archives", kind),
        log=folder.logs / f"classes-{kind}.log",
        once=True,
        late=late,
        ready_within=900.0,
    )


def unprepared(java: Java) -> tuple[str, ...]:
    """Kinds of processes whose classes nobody has prepared for this Java yet."""
    return tuple(kind for kind in SERVICES if classes_of(kind, java).are_missing())


def classes_of(kind: str, java: Java) -> Classes:
    if kind == "kafka":
        return Classes(java, kafka.class_path(_kafka_jars(java)))
    return Classes(java, zookeeper.class_path()) if kind == "zookeeper" else spark_classes(java)


def main(kind: str) -> None:
    # A signal must not leave a JVM behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    trials = {"kafka": _kafka, "zookeeper": _zookeeper, "futures": _spark}
    # What cannot be prepared is only slower.
    with suppress(MeantimeError, OSError):
        java = find_java()
        if kind == "futures":
            ensure_jars("spark", java, lambda _: None)
        classes_of(kind, java).prepare(partial(trials[kind], java))


def _kafka(java: Java, home: Path, option: str) -> str:
    listeners = kafka.Listeners(ports.choose(set()), ports.choose(set()))
    jars = _kafka_jars(java)
    _serve(kafka.kafka(Folder(home), java, jars, "kafka", listeners), option)
    return kafka.class_path(jars)


def _zookeeper(java: Java, home: Path, option: str) -> str:
    _serve(zookeeper.zookeeper(Folder(home), java, ports.choose(set())), option)
    return zookeeper.class_path()


def _spark(java: Java, home: Path, option: str) -> str:
    # The launcher is a JVM as well and writes its own classes first; those of Spark then take their place.
    options = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {option}".strip()
    told = {"JAVA_HOME": str(spark_java_home(java)), "JDK_JAVA_OPTIONS": options}
    with _started([sys.executable, "-m", "meantime.pipelines.warming", str(home)], told) as process:
        process.wait(SPARK_WITHIN)
    return (home / "path").read_text()


def _serve(service: Spec, option: str) -> None:
    """Until it is ready, and to an orderly end."""
    assert service.prepare is not None
    assert service.probe is not None
    service.prepare()
    program, *arguments = service.command
    with _started([program, option, *arguments], service.env) as process:
        deadline = time.monotonic() + READY_WITHIN
        while service.probe() is not None and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.terminate()
        process.wait(service.stop_within)


@contextmanager
def _started(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """What still runs at the end is killed, with all that it has started."""
    told = {**os.environ, **environment}
    process = None
    try:
        with _undisturbed():
            process = subprocess.Popen(command, env=told, stdin=subprocess.DEVNULL, start_new_session=True)
        yield process
    finally:
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """SIGTERM waits until the end: what is just being started is nobody's yet, and would be left behind."""
    came: list[int] = []
    ending = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, ending)
    if came:
        signal.raise_signal(signal.SIGTERM)


def _kafka_jars(java: Java) -> Path:
    return ensure_jars("kafka", java, lambda _: None)


if __name__ == "__main__":
    main(sys.argv[1])
