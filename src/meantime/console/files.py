"""The files of the console, as the build has left them beside this module, in memory and packed once.

What is asked for is looked up by its name among what was read, so no path leads anywhere else. `index.html` answers for
every address of the application; it names its parts relative to itself (`="./assets/…"`), and is rewritten for the depth of
the address that it is asked under, so that it works below any prefix that a proxy adds. Everything below `assets/` has a
name that changes with its content.
"""

import asyncio
import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
ASSETS = "assets/"
DEEPEST = 12
"""An address of the application has no more parts."""

_RELATIVE = b'="./'
_PACKED = (".html", ".js", ".css", ".svg", ".json", ".webmanifest", ".txt")
_TYPES = {
    ".js": "text/javascript",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".map": "text/plain",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """`packed` is the same by gzip, where that is worth it."""

    body: bytes
    packed: bytes | None
    media_type: str
    tag: str
    immutable: bool = False


class ConsoleFiles:
    """Read when they are first asked for, and again when the build has made new ones."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._built_at: int | None = None
        self._files: Mapping[str, StaticFile] = {}
        self._index = lru_cache(DEEPEST + 1)(self._index_at)

    async def find(self, path: str) -> StaticFile | None:
        """What lies at this path below the console: a file, or the application. None where there is nothing; before there
        was a build, that is everywhere."""
        built_at = _modified_at(self._folder / INDEX)
        if built_at != self._built_at:
            self._files = {} if built_at is None else await asyncio.to_thread(_read_all, self._folder)
            self._built_at = built_at
            self._index.cache_clear()
        if path in self._files and path != INDEX:
            return self._files[path]
        depth = path.count("/")
        if path.startswith(ASSETS) or depth > DEEPEST or INDEX not in self._files:
            return None
        return self._index(depth)

    @property
    def built(self) -> bool:
        """Whether there are any, as it was when somebody last asked."""
        return bool(self._files)

    def _index_at(self, depth: int) -> StaticFile:
        up = b'="' + (b"../" * depth or b"./")
        return _file(INDEX, self._files[INDEX].body.replace(_RELATIVE, up), None)


def _modified_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _read_all(folder: Path) -> dict[str, StaticFile]:
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {
        name: _file(name, body, found.get(f"{name}.gz"))
        for name, body in found.items()
        if not (name.endswith(".gz") and name.removesuffix(".gz") in found)
    }


def _file(name: str, body: bytes, packed: bytes | None) -> StaticFile:
    suffix = Path(name).suffix
    if packed is None and suffix in _PACKED:
        packed = gzip.compress(body, mtime=0)
    if packed is not None and len(packed) >= len(body):
        packed = None
    found = _TYPES.get(suffix) or mimetypes.guess_type(name, strict=True)[0] or "application/octet-stream"
    media_type = f"{found}; charset=utf-8" if found.startswith("text/") or suffix == ".svg" else found
    return StaticFile(body, packed, media_type, hashlib.sha256(body).hexdigest()[:32], name.startswith(ASSETS))
