import os
from pathlib import Path

import pytest

from meantime.stack.java.classes import Classes
from meantime.stack.java.runtime import Java


@pytest.fixture
def classes(tmp_path, monkeypatch) -> Classes:
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").write_text("one")
    return Classes(Java(tmp_path / "java", 17, bundled=False), f"{tmp_path}/settings/:{tmp_path}/jars/*")


def test_other_jars_or_another_java_are_other_classes(classes, tmp_path):
    before = classes.file()
    (tmp_path / "java").write_text("a Java")
    with_java = classes.file()
    (tmp_path / "jars" / "two.jar").write_text("two")
    with_two = classes.file()
    os.utime(tmp_path / "jars" / "one.jar", ns=(0, 0))
    assert len({before, with_java, with_two, classes.file()}) == 4
    assert classes.file() == classes.file()


def test_java_is_told_of_an_archive_once_there_is_one(classes):
    assert classes.are_missing()
    assert classes.options() == ()
    classes.prepare(lambda folder, option: "no such path")
    assert not classes.are_missing()
    assert classes.options() == ()
    classes.file().write_bytes(b"classes")
    classes.file().with_suffix(".size").write_text("7")
    assert classes.options()[0] == f"-XX:SharedArchiveFile={classes.file()}"


def test_classes_that_were_cut_short_are_prepared_anew(classes):
    classes.prepare(lambda folder, option: "no such path")
    classes.file().write_bytes(b"damaged")
    assert classes.are_missing()
    classes.prepare(lambda folder, option: "no such path")
    assert not classes.are_missing()
    assert classes.file().read_bytes() == b""


def test_a_trial_that_fails_is_not_repeated(classes):
    tried = []

    def fail(folder: Path, option: str) -> str:
        tried.append(option)
        raise OSError("no such program")

    classes.prepare(fail)
    classes.prepare(fail)
    assert len(tried) == 1
    assert [path.name for path in classes.file().parent.iterdir() if path.is_dir()] == []
