"""The home that our sessions give to Spark: that of PySpark, without the second copy of PySpark in it.

Spark tells every Python process that it starts to look for PySpark in its home first. There it is a zip, whose modules are
compiled anew each time, which takes a second; a session starts some ten such processes. In a home without it they find
the PySpark that is installed, which is the same one, compiled.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from meantime.stack.cache import cache_folder, exclusive
from meantime.stack.java.jars import spark_home

PARTS = ("bin", "jars")


def session_home() -> Path:
    """Links in the user's cache, one folder for each PySpark that is installed."""
    installed = spark_home().resolve()
    homes = cache_folder() / "spark"
    home = homes / hashlib.sha256(str(installed).encode()).hexdigest()[:12]
    with exclusive(homes):
        home.mkdir(exist_ok=True)
        for part in PARTS:
            _link(home / part, installed / part)
    return home


def passing_home() -> Path:
    """A home of this process alone, gone with it: where executors are processes of this machine, Spark keeps their files and
    logs in its home."""
    home = Path(tempfile.mkdtemp(prefix="meantime-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for part in PARTS:
        _link(home / part, spark_home().resolve() / part)
    return home


def _link(link: Path, target: Path) -> None:
    if not link.is_symlink():
        os.symlink(target, link)
