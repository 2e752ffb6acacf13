"""Files that are there whole or not at all, and that a crash of the machine does not take away.

A file is written beside its place under a name that nobody can guess and that must be new, so that no link and no file which
somebody has put there is ever followed or written into; then it takes its place in one step.
"""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex


def new_file(file: Path, content: bytes, mode: int = 0o666) -> None:
    """A file that must not be there yet, on the disk when this returns."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def write_whole(file: Path, content: bytes, mode: int = 0o666) -> None:
    """Put a file in place, whatever was there before."""
    fresh = file.with_name(f".{file.name}.{token_hex(8)}")
    try:
        new_file(fresh, content, mode)
        fresh.replace(file)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    sync(file.parent)


def sync(path: Path) -> None:
    """Return when a file, or the list of names in a folder, is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def move_in(file: Path, home: Path, above: Path) -> None:
    """Move a finished file to its place and return when it is there for good, with the folders that had to be made below
    `above`."""
    sync(file)
    home.parent.mkdir(parents=True, exist_ok=True)
    file.rename(home)
    folder = home.parent
    sync(folder)
    while folder != above and above in folder.parents:
        folder = folder.parent
        sync(folder)
