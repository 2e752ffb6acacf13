"""The log file of a process: appended to, put aside when it has grown large, quoted when the process does not come up."""

from io import BufferedWriter
from pathlib import Path

_LIMIT = 10 * 1024 * 1024


def open_log(path: Path) -> BufferedWriter:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _LIMIT:
        path.rename(path.with_suffix(".old.log"))
    return open(path, "ab")


def last_lines(path: Path, count: int = 5) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    written = [line for line in lines if line.strip()]
    return "\n".join(f"  {line[:600]}" for line in written[-count:])
