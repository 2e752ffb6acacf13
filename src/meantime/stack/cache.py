"""The user's cache: what was fetched or made once and is good for every stack of this user."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.errors import StackError
from meantime.stack.file_lock import file_lock


def cache_folder() -> Path:
    """`$MEANTIME_CACHE`, else `meantime` in `$XDG_CACHE_HOME`, else `~/.cache/meantime`."""
    if chosen := os.environ.get("MEANTIME_CACHE"):
        folder = Path(chosen)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "meantime"
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StackError(
            f"cannot write to the cache {folder}: {error.strerror}. Choose another with MEANTIME_CACHE"
        ) from error
    return folder


def publish_file(path: Path, content: bytes, mode: int) -> None:
    """Put a whole file in place at once; one with the same content is left alone."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as fresh:
        fresh.write(content)
    Path(fresh.name).chmod(mode)
    Path(fresh.name).rename(path)


@contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """One process of this user works in a folder of the cache at a time; the others wait and find the work done."""
    with file_lock(home / ".lock"):
        yield
