"""One process at a time: who comes second is refused or waits."""

import threading
from pathlib import Path

import pytest

from meantime.errors import Conflict
from meantime.stack.file_lock import file_lock


def test_who_does_not_wait_is_told_who_is_busy_and_by_which_lock(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "lock"
    with file_lock(lock), pytest.raises(Conflict, match=f"another process writes: it holds the lock {lock}"):
        file_lock(lock, busy="another process writes").__enter__()
    with file_lock(lock, busy="another process writes"):
        pass


def test_who_waits_comes_in_when_the_other_has_left(tmp_path: Path) -> None:
    lock, order = tmp_path / "lock", list[str]()

    def second() -> None:
        with file_lock(lock):
            order.append("second")

    with file_lock(lock):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]
