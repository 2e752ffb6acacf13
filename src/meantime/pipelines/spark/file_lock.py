"""One process at a time: a lock on a file, which ends with the process however that ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.errors import Conflict


@contextmanager
def alone(file: Path, what: str) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another process is at {what}: it holds {file}") from None
        yield
