"""Whom PostgreSQL runs as. It refuses to be root, so root lends it an unprivileged account that exists everywhere.

That account may not be allowed to walk to the data or to the programs: both may lie below folders that only root enters (a
clone in root's home, a temporary folder). No folder that is not ours is changed for that. The process is started *inside*
its data, which belongs to it, and goes by `INSIDE` from there. Programs that are out of reach are copied once to a folder
of our own that is not.
"""

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from meantime.errors import StackError
from meantime.stack.model import Account

INSIDE = "/proc/self/cwd"
"""The folder that a process was started in, also when it could not walk there."""
_NAMES = ("postgres", "nobody")
_REACHABLE = (Path("/var/lib"), Path("/var/tmp"), Path(tempfile.gettempdir()))
_OURS = "meantime"


def lend_account() -> Account | None:
    """An account for a process that refuses to be root; `None` when the supervisor's own will do."""
    if os.geteuid() != 0:
        return None
    if not Path(INSIDE).exists():
        raise StackError("PostgreSQL refuses to run as root, and this system has no /proc: run Meantime as an ordinary user")
    entry = _entry()
    return Account(entry.pw_uid, entry.pw_gid)


def popen_account(account: Account | None) -> dict[str, Any]:
    """The same as arguments of `Popen`; of root's groups none is left."""
    return {"user": account.uid, "group": account.gid, "extra_groups": ()} if account else {}


def give(path: Path, account: Account | None) -> None:
    if account:
        os.chown(path, account.uid, account.gid)


@dataclass(frozen=True, slots=True)
class Programs:
    """Folders with programs and their libraries, which find each other by their places below `root`."""

    root: Path
    parts: tuple[str, ...]

    def files(self) -> Iterator[Path]:
        for part in self.parts:
            yield self.root / part
            yield from sorted((self.root / part).rglob("*"))


def runnable(programs: Programs, account: Account | None) -> Path:
    """The root from which the account can run them: their own, or that of a copy, which `make_runnable` makes."""
    if account is None or _open_to_all(programs):
        return programs.root
    return _reachable_folder() / _name(programs)


def make_runnable(programs: Programs, account: Account | None) -> None:
    copy = runnable(programs, account)
    if copy == programs.root or copy.exists():
        return
    _make_ours(copy.parent)
    with tempfile.TemporaryDirectory(dir=copy.parent, prefix=".copy-") as folder:
        made = Path(folder) / "programs"
        for part in programs.parts:
            shutil.copytree(programs.root / part, made / part, symlinks=True)
        for path in (made, *made.rglob("*")):
            if not path.is_symlink():
                runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
                path.chmod(0o755 if runs else 0o644)
        if not copy.exists():
            made.rename(copy)


def _entry() -> pwd.struct_passwd:
    for name in _NAMES:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise StackError(
        "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody` on this machine: "
        "create one, or run Meantime as an ordinary user"
    )


def _open_to_all(programs: Programs) -> bool:
    """Whether anybody can walk to the programs, read and run them."""
    folders = [programs.root / part for part in programs.parts]
    return all(map(_can_be_entered, folders)) and all(map(_readable, programs.files()))


def _can_be_entered(folder: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.resolve().parents))


def _readable(path: Path) -> bool:
    mode = path.lstat().st_mode
    runs = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
    return stat.S_ISLNK(mode) or bool(mode & stat.S_IROTH and (mode & stat.S_IXOTH or not runs))


@cache
def _name(programs: Programs) -> str:
    """Of a copy: after what is in it, so that all installations of one version share it."""
    content = hashlib.sha256()
    for path in programs.files():
        content.update(str(path.relative_to(programs.root)).encode())
        if path.is_file() and not path.is_symlink():
            content.update(path.read_bytes())
    return f"postgresql-{content.hexdigest()[:12]}"


def _reachable_folder() -> Path:
    for folder in _REACHABLE:
        if folder.is_dir() and os.access(folder, os.W_OK) and _can_be_entered(folder):
            return folder / _OURS
    raise StackError(
        "PostgreSQL refuses to run as root, and there is no folder that another account can enter "
        f"({', '.join(map(str, _REACHABLE))}): run Meantime as an ordinary user"
    )


def _make_ours(folder: Path) -> None:
    """Root's own, so that nobody else can put programs there."""
    folder.mkdir(mode=0o755, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StackError(f"{folder} is not root's own: remove it, or run Meantime as an ordinary user")
    folder.chmod(0o755)  # whatever the umask
