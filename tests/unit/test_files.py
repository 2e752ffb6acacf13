from pathlib import Path

import pytest

from meantime.files import move_in, new_file, write_whole


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_whole(file, b"one")
    write_whole(file, b"two", 0o600)
    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_new_file_is_never_written_into_what_is_there(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_bytes(b"precious")
    link.symlink_to(victim)
    for place in (victim, link):
        with pytest.raises(FileExistsError):
            new_file(place, b"evil")
    write_whole(link, b"whole")
    assert (victim.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"precious", b"whole", False)


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(folder, b"x")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_finished_file_is_moved_in_with_its_folders(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(b"x")
    move_in(made, tmp_path / "a" / "b" / "file", tmp_path)
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"x"
    assert not made.exists()
