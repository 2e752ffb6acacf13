"""Class archives (Java's class data sharing): a JVM that finds its classes in one is up in about half the time.

An archive is made once per user, of the classes that a trial run has loaded, and kept in the cache under the name of what
it was made of: which Java, which jars. Java checks that again whenever it starts, and goes without an archive that does not
fit. What Java does not notice is one that was cut short: its size is kept beside it, and one of another size is made anew.
An empty one says that this Java could not make it; that there was no time for it says nothing, and it is tried again.
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from meantime.stack.cache import cache_folder, exclusive, publish_file
from meantime.stack.java.jars import jars_folder
from meantime.stack.java.runtime import Java
from meantime.stack.java.spark_home import session_home

Trial = Callable[[Path, str], str]
"""Runs the service in a folder, with one more option for Java, until it has loaded what it needs; returns its class path."""

DUMP_WITHIN = 300.0
TRIAL = ".trial-"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """What one Java finds on one class path."""

    java: Java
    path: str

    def file(self) -> Path:
        made_of = "\n".join(_traits([self.java.executable.resolve(), *_entries(self.path)]))
        return cache_folder() / "classes" / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"

    def is_missing(self) -> bool:
        return not _is_whole(self.file())

    def options(self) -> tuple[str, ...]:
        """For a JVM with this class path; none without an archive: Java would then go without its own as well."""
        if self.is_missing() or self.file().stat().st_size == 0:
            return ()
        return f"-XX:SharedArchiveFile={self.file()}", "-Xshare:auto", "-Xlog:cds=off"

    def make(self, trial: Trial) -> None:
        """Make the archive, unless somebody has."""
        file = self.file()
        with exclusive(file.parent):
            if _is_whole(file):
                return
            file.unlink(missing_ok=True)
            # Whoever holds the lock is the only one on trial: other folders were left by somebody who was killed.
            for left in file.parent.glob(f"{TRIAL}*"):
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=file.parent, prefix=TRIAL) as folder:
                listed, made = Path(folder) / "classes", Path(folder) / "made"
                try:
                    path = trial(Path(folder), f"-XX:DumpLoadedClassList={listed}")
                    self._dump(path, listed, made)
                except subprocess.TimeoutExpired:
                    return
                except (OSError, subprocess.SubprocessError):
                    made.unlink(missing_ok=True)
                made.touch()
                publish_file(_size_of(file), str(made.stat().st_size).encode(), mode=0o644)
                made.rename(file)

    def _dump(self, path: str, listed: Path, made: Path) -> None:
        options = ("-Xshare:dump", f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={made}", "-Xlog:disable")
        command = [str(self.java.executable), *options, "-cp", path]
        done = subprocess.run(command, capture_output=True, timeout=DUMP_WITHIN, check=False)
        if done.returncode != 0:
            made.unlink(missing_ok=True)


def spark_archive(java: Java) -> ClassArchive:
    """Spark's launcher puts the class path together, from this."""
    return ClassArchive(java, f"{class_path('spark')}:{session_home()}/jars/*")


def class_path(*confs: str) -> str:
    """Jars for the class path of a driver, Spark's connector to Kafka first: classes of `spark.jars` cannot be archived."""
    return ":".join(f"{jars_folder(conf)}/*" for conf in confs)


def _size_of(file: Path) -> Path:
    return file.with_suffix(".size")


def _is_whole(file: Path) -> bool:
    try:
        return file.stat().st_size == int(_size_of(file).read_text())
    except (OSError, ValueError):
        return False


def _entries(path: str) -> Iterator[Path]:
    """Everything on a class path; the folder of a `folder/*` as well, in whose order Java takes its jars."""
    for entry in map(Path, path.split(":")):
        if entry.name == "*":
            yield entry.parent
            yield from sorted(entry.parent.glob("*.jar"))
        else:
            yield entry


def _traits(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        found = path.stat() if path.exists() else None
        yield f"{path} {found.st_size} {found.st_mtime_ns}" if found else str(path)
