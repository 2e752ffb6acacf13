"""One process at a time: a lock on a file, which ends with the process however that ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.errors import Conflict


@contextmanager
def file_lock(file: Path, *, busy: str | None = None) -> Iterator[None]:
    """Waits for whoever holds the lock; with `busy` it raises Conflict with that message instead of waiting."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX if busy is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"{busy}: it holds the lock {file}") from None
        yield
