"""The other sides of the benchmark of schedules: APScheduler 3 with its PostgreSQL store, and procrastinate's periodic jobs.

They are installed once into an environment of their own below the user's cache, and run as processes of it.
"""

import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from meantime.stack.cache import cache_folder

HERE = Path(__file__).parent / "peer"
PACKAGES = ("apscheduler>=3.11,<4", "sqlalchemy>=2,<3", "procrastinate>=3,<4", "psycopg[binary,pool]>=3,<4")


class Missing(Exception):
    """The peers cannot be had here."""


def python() -> str:
    """The interpreter of the environment that has them."""
    home = cache_folder() / "bench-schedules"
    interpreter = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        command = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if done.returncode:
            raise Missing(f"pip cannot install them: {done.stderr.strip().splitlines()[-1]}")
        (home / "ready").touch()
    return str(interpreter)


class Peer:
    """Processes that fire schedules and write down each firing; the first of them is the one to be killed."""

    def __init__(
        self, name: str, program: str, uri: str, file: Path, *, processes: int = 1, options: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self._command = [python(), str(HERE / program), uri]
        self._file = file
        self._count = processes
        self._options = options
        self._running: list[subprocess.Popen[bytes]] = []
        self._arguments: list[str] = []

    def start(self, schedules: int, every: int) -> None:
        self._arguments = [str(schedules), str(every), str(self._file)]
        if "procrastinate" in self.name:
            subprocess.run([*self._command, *self._arguments, "schema"], check=True, stderr=subprocess.DEVNULL)
        self._running = [self._process() for _ in range(self._count)]

    def kill_scheduler(self) -> None:
        """kill -9; its successor is started at once, as a supervisor would."""
        killed = self._running.pop(0)
        killed.kill()
        killed.wait()
        self._running.append(self._process())

    def firings(self) -> Iterator[tuple[str, int, float]]:
        """Schedule, instant, and when it ran, in seconds."""
        for line in self._file.read_text().splitlines():
            schedule, instant, ran = line.split()
            yield schedule, int(instant), float(ran)

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def _process(self) -> subprocess.Popen[bytes]:
        command = [*self._command, *self._arguments, *self._options]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)


@contextmanager
def own_database(uri: str) -> Iterator[str]:
    """A database of its own in the same server."""
    name = f"bench_{uuid4().hex[:8]}"
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    try:
        yield uri.rpartition("/")[0] + f"/{name}"
    finally:
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]


def peers(uri: str, folder: Path) -> Iterator[Peer]:
    """One after the other, each with a database of its own."""
    sides = [
        ("APScheduler 3, defaults", "apscheduler_side.py", 1, ()),
        ("APScheduler 3, any lateness allowed", "apscheduler_side.py", 1, ("patient",)),
        ("procrastinate, two workers", "procrastinate_side.py", 2, ()),
    ]
    for number, (name, program, processes, options) in enumerate(sides):
        with own_database(uri) as own:
            yield Peer(name, program, own, folder / f"firings-{number}", processes=processes, options=options)
