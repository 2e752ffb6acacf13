"""Makes class archives, in a process of its own: `python -m meantime.stack.class_archives kafka`.

Each service on Java is run once on trial, to learn which classes it loads. An archive only makes later starts faster, so a
stack makes those that are missing when everything else is ready, at the lowest priority and when the machine is idle. The
process ends by itself when the archives are made, or cannot be. Stopped or killed before, it takes what it has started
along, and the next one makes what is missing.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.runtime import die_with_parent, step_back
from meantime.stack import ports
from meantime.stack.folder import Folder
from meantime.stack.java.archive import ClassArchive, spark_archive
from meantime.stack.java.jars import ensure_jars
from meantime.stack.java.runtime import Java, find_java, spark_java_home
from meantime.stack.model import Spec
from meantime.stack.services import kafka, zookeeper

SERVICES = ("zookeeper", "kafka", "futures")
"""Kinds of processes for which an archive can be made."""
READY_WITHIN = 300.0
SPARK_WITHIN = 600.0
"""Far more than it takes: others may have become busy again, and go first."""
IDLE_WITHIN = 3600.0
IDLE = "--when-idle"


def archives_spec(folder: Folder, java: Java, specs: Sequence[Spec]) -> Spec:
    """Makes what is missing for these processes once all of them are ready."""
    kinds = missing_archives(java, {spec.kind for spec in specs})
    return Spec(
        kind="classes",
        name="class-archives",
        command=(sys.executable, "-m", "meantime.stack.class_archives", IDLE, *kinds),
        log=folder.logs / "class-archives.log",
        depends=tuple(spec.name for spec in specs),
        once=True,
        late=True,
        optional=True,
        ready_within=IDLE_WITHIN + 3600.0,
    )


def missing_archives(java: Java, kinds: Collection[str]) -> tuple[str, ...]:
    """Those kinds of processes for which this Java has no class archive yet."""
    return tuple(kind for kind in SERVICES if kind in kinds and archive_of(kind, java).is_missing())


def archive_of(kind: str, java: Java) -> ClassArchive:
    if kind == "kafka":
        return ClassArchive(java, kafka.class_path())
    return ClassArchive(java, zookeeper.class_path()) if kind == "zookeeper" else spark_archive(java)


def main(arguments: Sequence[str]) -> None:
    # A signal must not leave a JVM behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    runs = {"kafka": _kafka, "zookeeper": _zookeeper, "futures": _spark}
    jars = {"kafka": "kafka", "futures": "spark"}
    if IDLE in arguments:
        step_back(19)
        _wait_until_idle()
    for kind in (argument for argument in arguments if argument != IDLE):
        print(f"  {kind}", flush=True)
        # Without an archive a start is only slower.
        with suppress(MeantimeError, OSError):
            java = find_java()
            if kind in jars:
                ensure_jars(jars[kind], java, lambda _: None)
            archive_of(kind, java).make(partial(runs[kind], java))


def _wait_until_idle() -> None:
    """Until half of the processors have had little to do for a minute. A busy machine is left alone until next time."""
    deadline = time.monotonic() + IDLE_WITHIN
    while os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        if time.monotonic() > deadline:
            sys.exit("the machine is never idle: class archives are made another time")
        time.sleep(5.0)


def _kafka(java: Java, home: Path, option: str) -> str:
    listeners = kafka.Listeners(ports.choose(set()), ports.choose(set()))
    _serve(kafka.kafka(Folder(home), java, "kafka", listeners), option)
    return kafka.class_path()


def _zookeeper(java: Java, home: Path, option: str) -> str:
    _serve(zookeeper.zookeeper(Folder(home), java, zookeeper.Server("zookeeper", ports.choose(set()))), option)
    return zookeeper.class_path()


def _spark(java: Java, home: Path, option: str) -> str:
    # The launcher is a JVM as well and writes its own classes first; those of Spark then take their place.
    options = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {option}".strip()
    environment = {"JAVA_HOME": str(spark_java_home(java)), "JDK_JAVA_OPTIONS": options}
    with _started([sys.executable, "-m", "meantime.pipelines.warming", str(home)], environment) as process:
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
        while service.probe() is not None and process.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(service.name, READY_WITHIN)
            time.sleep(0.1)
        process.terminate()
        process.wait(READY_WITHIN)


@contextmanager
def _started(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """What still runs at the end is killed, with all that it has started."""
    environment = {**os.environ, **environment}
    process = None
    try:
        with _sigterm_held_back():
            # In a group of its own, but in this session: Linux weighs sessions, and this one has stepped back.
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                process_group=0,
                preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - there are no threads here
            )
        yield process
    finally:
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _sigterm_held_back() -> Iterator[None]:
    """SIGTERM waits until the end: what is just being started is nobody's yet, and would be left behind."""
    came: list[int] = []
    ending = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, ending)
    if came:
        signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1:])
