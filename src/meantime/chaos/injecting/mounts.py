"""A file system of one's own in a file: it can be full, turn read-only, or lose what is not on the disk yet."""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

from meantime.errors import StackError

EXT4_IOC_SHUTDOWN = 0x8004587D
"""`_IOR('X', 125, __u32)`"""
WITHOUT_LOG = 2
"""What is not on the disk yet is lost, the journal as well, as when the power is cut."""
GONE_WITHIN = 60.0
PROGRAMS = ("mkfs.ext4", "mount", "umount")


def why_not() -> str | None:
    """Why this machine cannot do it."""
    if os.geteuid() != 0:
        return "it takes root to mount a file system"
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"{', '.join(missing)} not found"
    return None if Path("/dev/loop-control").exists() else "there are no loop devices"


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class LoopMount:
    def __init__(self, image: Path, at: Path, megabytes: int) -> None:
        self._image = image
        self.at = at
        self._megabytes = megabytes

    def make(self) -> None:
        self._image.parent.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(self._megabytes << 20)
        _run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        self.at.mkdir(parents=True, exist_ok=True)
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.at))

    def unmount(self) -> None:
        """Who was killed a moment ago may still be there."""
        deadline = time.monotonic() + GONE_WITHIN
        while True:
            try:
                return _run("umount", str(self.at))
            except StackError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def drop(self) -> None:
        """At the end, whatever state it is in."""
        subprocess.run(["umount", "-l", str(self.at)], check=False, capture_output=True, env={"PATH": _PATH})
        self._image.unlink(missing_ok=True)

    def cut_power(self) -> None:
        """From now on nothing can be read or written, and what was not on the disk never will be."""
        handle = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG))
        finally:
            os.close(handle)

    def make_read_only(self) -> None:
        """As the kernel does it after an error of the disk, under the feet of whoever writes."""
        _run("mount", "-o", "remount,abort", str(self.at))

    def fill(self) -> None:
        filler = self.at / "filler"
        free = os.statvfs(self.at)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - (64 << 10), 1))
            try:
                while True:
                    file.seek(0, os.SEEK_END)
                    file.write(bytes(4096))
                    file.flush()
            except OSError:
                return

    def make_room(self) -> None:
        (self.at / "filler").unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": _PATH}, timeout=60)
    if done.returncode:
        raise StackError(f"{' '.join(command)}: {done.stderr.strip()}")
