"""The seed's own design, as a Kafka Streams program: fetched, compiled and run for as long as a block lasts."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.stack.cache import cache_folder
from meantime.stack.java.jars import spark_home
from meantime.stack.java.runtime import find_java

HERE = Path(__file__).parent / "peer"
REQUESTS = "peer-request"
TICKS = "peer-oscillator"
CHANGELOG = "peer-timers-timers-other-join-store-changelog"
"""Of the store that keeps requests: Kafka Streams writes one record for each that it takes in."""


class Missing(Exception):
    """The peer cannot be had here."""


def _compiled() -> tuple[Path, Path]:
    """Its jars and its class, made once for this user."""
    home = cache_folder() / "bench-peer"
    jars, classes = home / "jars", home / "classes"
    compiler = shutil.which("javac")
    if compiler is None:
        raise Missing("there is no Java compiler on this machine")
    if not jars.exists():
        ivy = sorted((spark_home() / "jars").glob("ivy-*.jar"))[-1]
        pattern = f"{home}/fetched/[artifact]-[revision](-[classifier]).[ext]"
        command = [str(find_java().executable), "-jar", str(ivy), "-ivy", str(HERE / "peer.ivy.xml")]
        done = subprocess.run([*command, "-confs", "peer", "-retrieve", pattern], capture_output=True, check=False)
        if done.returncode != 0:
            raise Missing("the jars of Kafka Streams could not be fetched")
        (home / "fetched").rename(jars)
    source = HERE / "StreamsTimers.java"
    subprocess.run([compiler, "-d", str(classes), "-cp", f"{jars}/*", str(source)], check=True)
    return jars, classes


@contextmanager
def peer(kafka: str, folder: Path, window_minutes: int = 120) -> Iterator[subprocess.Popen[str]]:
    jars, classes = _compiled()
    command = [str(find_java().executable), "-Xmx1g", "-cp", f"{classes}:{jars}/*", "StreamsTimers"]
    arguments = [kafka, str(folder), str(window_minutes)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if "running" not in process.stdout.readline():
                raise Missing("Kafka Streams did not come up")
            yield process
        finally:
            process.terminate()
