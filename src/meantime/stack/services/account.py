"""Whom PostgreSQL runs as. It refuses to be root, so root lends it an unprivileged account that exists everywhere.

The account must be able to walk to its binaries and its data, which may lie below folders that only root may enter (a clone
in root's home, a temporary folder). Such folders get the right to *pass through* (never to list) for their own group, and
the process is put into that group: nobody else gains anything, and the machine's user list stays as it is.
"""

import os
import pwd
import stat
from pathlib import Path

from meantime.errors import StackError
from meantime.stack.model import Account

_NAMES = ("postgres", "nobody")


def lend_account(*paths: Path) -> Account | None:
    """An account for a process that works in `paths`; `None` when the supervisor's own will do."""
    if os.geteuid() != 0:
        return None
    entry = _entry()
    groups = {gid for path in paths for gid in _open_way(path)}
    return Account(entry.pw_uid, entry.pw_gid, tuple(sorted(groups)))


def open_tree(root: Path, groups: tuple[int, ...]) -> None:
    """Make a tree of programs readable where it was installed for root's eyes only (a strict umask)."""
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_IROTH:
            continue
        if status.st_gid not in groups:
            raise StackError(f"{path} cannot be read by PostgreSQL's account: `chmod -R o+rX {root}` helps")
        runs = stat.S_IXGRP if status.st_mode & stat.S_IXUSR else 0
        path.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRGRP | runs)


def give(path: Path, account: Account | None) -> None:
    if account:
        os.chown(path, account.uid, account.gid)


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


def _open_way(path: Path) -> set[int]:
    groups = set()
    for folder in [path, *path.parents]:
        status = folder.stat()
        if status.st_mode & stat.S_IXOTH:
            continue
        groups.add(status.st_gid)
        if not status.st_mode & stat.S_IXGRP:
            folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXGRP)
    return groups
