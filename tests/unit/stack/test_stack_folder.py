import os
from pathlib import Path

import msgspec
import pytest

from meantime.errors import StackError
from meantime.stack.folder import Folder, StackState, StateFile
from meantime.stack.model import ProcessIdentity, Row


def row(name: str, pid: int = 1) -> Row:
    return Row(
        kind="node",
        name=name,
        mark=ProcessIdentity(pid, "then"),
        log="",
        state="ready",
        restarts=0,
        stop_signal=15,
        stop_within=1.0,
        level=0,
    )


def test_a_second_stack_on_the_same_directory_is_refused(tmp_path):
    folder = Folder(tmp_path)
    with folder.locked():
        folder.write(StackState(supervisor=ProcessIdentity(4711, "then")))
        with pytest.raises(StackError, match=r"in use by a running stack \(supervisor pid 4711\).*meantime down --data"):
            Folder(tmp_path).locked().__enter__()


def test_a_directory_is_locked_for_as_long_as_it_is_held(tmp_path):
    folder = Folder(tmp_path)
    assert not folder.is_locked()
    with folder.locked():
        assert folder.is_locked()
    assert not folder.is_locked()


def test_a_directory_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match=r"cannot write to the data directory .*Not a directory.*--data or MEANTIME_DATA"):
        Folder(tmp_path / "file" / "data").locked().__enter__()


def test_a_read_only_file_system_is_an_error_too():
    with pytest.raises(StackError, match="cannot write to the data directory /proc/meantime"):
        Folder(Path("/proc/meantime")).locked().__enter__()


def test_a_full_disk_is_an_error_that_says_how_much_is_needed(tmp_path):
    with pytest.raises(StackError, match=r"is full: 12 MB are free and a stack needs at least 500 MB"):
        Folder(tmp_path).check_space(free_bytes=lambda _: 12 * 2**20)


def test_what_is_written_is_read_again_and_is_for_the_owner_only(tmp_path):
    memory = StackState(nodes=3, kafka=2, ports={"zookeeper": 21000}, processes=(row("node-1"),))
    Folder(tmp_path).write(memory)
    assert Folder(tmp_path).read() == memory
    assert os.stat(tmp_path / "stack.json").st_mode & 0o077 == 0


def test_a_damaged_memory_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(StackError, match=r"cannot read .*stack\.json.*Move it away"):
        Folder(tmp_path).read()


def test_the_process_table_has_one_row_per_process(tmp_path):
    ledger = StateFile(Folder(tmp_path))
    ledger.put(row("node-1", pid=1))
    ledger.put(row("node-2", pid=2))
    ledger.put(row("node-1", pid=3))
    ledger.remove("node-2")
    assert Folder(tmp_path).read().processes == (row("node-1", pid=3),)


def test_the_memory_of_a_later_release_can_be_read(tmp_path):
    document = msgspec.to_builtins(StackState(nodes=2)) | {"console": True}
    (tmp_path / "stack.json").write_bytes(msgspec.json.encode(document))
    assert Folder(tmp_path).read().nodes == 2
