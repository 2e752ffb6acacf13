"""The data directory of one stack: its lock, its state (`stack.json`) and its logs.

Only the holder of the lock writes `stack.json`. The lock is the kernel's and ends with the process, so *locked* means
*running*; what stands in the file of an unlocked directory are memories (ports, counts) and perhaps leftovers.

    DIR/lock  DIR/stack.json  DIR/logs/<process>.log  DIR/<service>/…
"""

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from meantime.errors import StackError
from meantime.files import new_file, write_whole
from meantime.stack.model import Places, ProcessIdentity, Row

LEAST_FREE_BYTES = 500 * 1024 * 1024


class StackState(msgspec.Struct, frozen=True):
    """What `stack.json` holds."""

    nodes: int = 1
    kafka: int = 1
    replicas: int = 1
    durable: bool = False
    auth: bool = False
    ports: dict[str, int] = {}
    supervisor: ProcessIdentity | None = None
    ready: bool = False
    places: Places | None = None
    processes: tuple[Row, ...] = ()


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.logs = self.path / "logs"
        self.postgres_passfile = self.path / "postgres.pgpass"
        self.first_key = self.path / "first.key"

    def read(self) -> StackState:
        try:
            return msgspec.json.decode((self.path / "stack.json").read_bytes(), type=StackState)
        except FileNotFoundError:
            return StackState()
        except (msgspec.MsgspecError, OSError) as error:
            raise StackError(
                f"cannot read {self.path / 'stack.json'}: {error}. Move it away to choose ports anew"
            ) from error

    def write(self, state: StackState) -> None:
        write_whole(self.path / "stack.json", msgspec.json.format(msgspec.json.encode(state), indent=2), 0o600)

    def write_secret(self, file: Path, text: str) -> None:
        """For its owner's eyes only, from its first moment; another's file or link in its place is an error."""
        new_file(file, text.encode(), 0o600)

    def is_locked(self) -> bool:
        try:
            with open(self.path / "lock", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory; a second stack on it is refused."""
        self._make()
        with open(self.path / "lock", "ab") as file:
            if not _lock(file):
                raise StackError(in_use(self))
            yield

    def check_space(self, free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free) -> None:
        free = free_bytes(self.path)
        if free < LEAST_FREE_BYTES:
            raise StackError(
                f"the disk of {self.path} is full: {free // 2**20} MB are free and a stack needs at least "
                f"{LEAST_FREE_BYTES // 2**20} MB. Make room, or choose another place with --data"
            )

    def _make(self) -> None:
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise StackError(
                f"cannot write to the data directory {self.path}: {error.strerror}. "
                "Choose one that you may write to with --data or MEANTIME_DATA"
            ) from error


def _lock(file: BinaryIO) -> bool:
    """Try for a moment: somebody who only looks whether it is locked holds it that long."""
    for _ in range(6):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False


def in_use(folder: Folder) -> str:
    supervisor = folder.read().supervisor
    by = f" (supervisor pid {supervisor.pid})" if supervisor else ""
    return (
        f"the data directory {folder.path} is in use by a running stack{by}: stop it with "
        f"`meantime down --data {folder.path}`, or choose another directory with --data"
    )


class StateFile:
    """The state of a running stack, written through on every change."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.state = folder.read()

    def change(self, **fields: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **fields)
        self._folder.write(self.state)

    def put(self, row: Row) -> None:
        self.change(processes=(*(other for other in self.state.processes if other.name != row.name), row))

    def remove(self, name: str) -> None:
        self.change(processes=tuple(row for row in self.state.processes if row.name != name))
