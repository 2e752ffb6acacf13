"""Places that pipelines keep files in: a folder of this machine, or `s3a://bucket/folder` in an object store.

What is written here is there whole or not at all, and stays when the machine goes down.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from meantime.errors import Invalid
from meantime.files import move_in as move_file_in
from meantime.files import write_whole as write_file_whole
from meantime.pipelines.spark.object_store import ObjectPath, is_object_address
from meantime.stack.cache import cache_folder

Place = Path | ObjectPath


def place_of(address: str | Path, option: str) -> Place:
    """By the address that an option names."""
    text = str(address)
    if isinstance(address, str) and is_object_address(text):
        return ObjectPath.of(text)
    scheme = urlsplit(text).scheme
    if scheme == "file":
        return Path(urlsplit(text).path)
    if "://" in text:
        raise Invalid(f"{option} is a folder or s3a://bucket/folder, not {text}", option=option)
    return Path(text).absolute()


def address_of(place: Place) -> str:
    """As Spark takes it."""
    return place.address if isinstance(place, ObjectPath) else str(place)


def again(address: str) -> Place:
    """The place that `address_of` has named."""
    return ObjectPath.of(address) if is_object_address(address) else Path(address)


def found(place: Place, pattern: str) -> list[Place]:
    """What is below a place, by the pattern of a path, in the order of names."""
    return [place / str(one.relative_to(place)) for one in sorted(place.glob(pattern))]


def write_whole(file: Place, content: bytes) -> None:
    if isinstance(file, ObjectPath):
        file.write_bytes(content)
    else:
        write_file_whole(file, content)


def append(file: Place, content: bytes) -> None:
    """Of an object a longer one is made, so this is for what is rare."""
    if isinstance(file, ObjectPath):
        file.write_bytes((file.read_bytes() if file.exists() else b"") + content)
        return
    with file.open("ab") as kept:
        kept.write(content)
        kept.flush()
        os.fsync(kept.fileno())


def move_in(file: Place, home: Place, above: Place) -> None:
    if isinstance(file, ObjectPath):
        assert isinstance(home, ObjectPath)
        file.rename(home)
        return
    assert isinstance(home, Path)
    assert isinstance(above, Path)
    move_file_in(file, home, above)


def remove_tree(place: Place) -> None:
    if isinstance(place, ObjectPath):
        place.remove_tree()
    else:
        shutil.rmtree(place, ignore_errors=True)


def size_of(file: Place) -> int:
    return file.size() if isinstance(file, ObjectPath) else file.stat().st_size


def readable(file: Place) -> Any:
    """What pyarrow reads a file from."""
    return file.open_input() if isinstance(file, ObjectPath) else file


def writable(file: Place) -> Any:
    """What pyarrow writes a file to; an object is there when this is closed."""
    return file.open_output() if isinstance(file, ObjectPath) else file.open("wb")


def lock_file(place: Place, name: str) -> Path:
    """What keeps a second process away. An object store has no locks, so there only one of the same user on this machine."""
    if isinstance(place, ObjectPath):
        return cache_folder() / "locks" / hashlib.sha256(place.address.encode()).hexdigest()[:16] / name
    return place / name
