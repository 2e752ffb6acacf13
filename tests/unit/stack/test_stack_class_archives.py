import os
import subprocess
from pathlib import Path

import pytest

from meantime.stack.java.archive import ClassArchive
from meantime.stack.java.runtime import Java


@pytest.fixture
def archive(tmp_path, monkeypatch) -> ClassArchive:
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").write_text("one")
    return ClassArchive(Java(tmp_path / "java", 17, bundled=False), f"{tmp_path}/settings/:{tmp_path}/jars/*")


def test_other_jars_or_another_java_have_another_archive(archive, tmp_path):
    before = archive.file()
    (tmp_path / "java").write_text("a Java")
    with_java = archive.file()
    (tmp_path / "jars" / "two.jar").write_text("two")
    with_two = archive.file()
    os.utime(tmp_path / "jars" / "one.jar", ns=(0, 0))
    assert len({before, with_java, with_two, archive.file()}) == 4
    assert archive.file() == archive.file()


def test_java_is_told_of_an_archive_once_there_is_one(archive):
    assert archive.is_missing()
    assert archive.options() == ()
    archive.make(lambda folder, option: "no such path")
    assert not archive.is_missing()
    assert archive.options() == ()
    archive.file().write_bytes(b"classes")
    archive.file().with_suffix(".size").write_text("7")
    assert archive.options()[0] == f"-XX:SharedArchiveFile={archive.file()}"


def test_an_archive_that_was_cut_short_is_made_anew(archive):
    archive.make(lambda folder, option: "no such path")
    archive.file().write_bytes(b"damaged")
    assert archive.is_missing()
    archive.make(lambda folder, option: "no such path")
    assert not archive.is_missing()
    assert archive.file().read_bytes() == b""


def test_a_trial_that_had_no_time_is_repeated(archive):
    def never_ready(folder: Path, option: str) -> str:
        raise subprocess.TimeoutExpired("kafka", 1.0)

    archive.make(never_ready)
    assert archive.is_missing()
    archive.make(lambda folder, option: "no such path")
    assert not archive.is_missing()


def test_a_trial_that_fails_is_not_repeated(archive):
    tried = []

    def fail(folder: Path, option: str) -> str:
        tried.append(option)
        raise OSError("no such program")

    archive.make(fail)
    archive.make(fail)
    assert len(tried) == 1
    assert [path.name for path in archive.file().parent.iterdir() if path.is_dir()] == []
