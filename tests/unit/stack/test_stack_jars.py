from importlib.resources import files
from xml.etree import ElementTree

import pytest

from meantime.errors import StackError
from meantime.stack.java import jars
from meantime.stack.java.runtime import Java

WANTED = {"one-1.0.jar": jars._digest(b"one"), "two-2.0.jar": jars._digest(b"two")}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "checksums", lambda conf: WANTED)
    return tmp_path


def fetching(content: dict[str, bytes], calls: list[str]):
    def retrieve(conf, target, java, say, count):
        calls.append(conf)
        (target / conf).mkdir()
        for name, body in content.items():
            (target / conf / name).write_bytes(body)

    return retrieve


def ensure(monkeypatch, content: dict[str, bytes]) -> tuple[list[str], object]:
    calls: list[str] = []
    monkeypatch.setattr(jars, "_retrieve", fetching(content, calls))
    return calls, lambda: jars.ensure_jars("kafka", Java("java", 17, bundled=False), lambda _: None)


def test_every_locked_jar_has_a_checksum_and_the_other_way_round():
    lock = ElementTree.fromstring(files("meantime.stack.java").joinpath("jars.ivy.xml").read_text("utf-8"))
    for conf in ("kafka", "spark", "s3"):
        locked = {
            f"{jar.get('name')}-{jar.get('rev')}.jar"
            for jar in lock.iter("dependency")
            if jar.get("conf") == f"{conf}->default"
        }
        assert jars.checksums(conf).keys() == locked
    assert all(jar.get("transitive") == "false" for jar in lock.iter("dependency"))


def test_jars_are_fetched_once(cache, monkeypatch):
    calls, ensure_jars = ensure(monkeypatch, {"one-1.0.jar": b"one", "two-2.0.jar": b"two"})
    folder = ensure_jars()
    assert (folder / "one-1.0.jar").read_bytes() == b"one"
    assert ensure_jars() == folder
    assert calls == ["kafka"]


def test_a_jar_with_another_content_is_refused_and_nothing_is_kept(cache, monkeypatch):
    _, ensure_jars = ensure(monkeypatch, {"one-1.0.jar": b"one", "two-2.0.jar": b"evil"})
    with pytest.raises(StackError, match=r"two-2\.0\.jar is not what the lock file names"):
        ensure_jars()
    assert not list(cache.rglob("*.jar"))


def test_a_missing_jar_is_refused(cache, monkeypatch):
    _, ensure_jars = ensure(monkeypatch, {"one-1.0.jar": b"one"})
    with pytest.raises(StackError, match=r"two-2\.0\.jar is not what the lock file names \(sha256 missing"):
        ensure_jars()


def test_a_damaged_cache_is_fetched_anew(cache, monkeypatch):
    calls, ensure_jars = ensure(monkeypatch, {"one-1.0.jar": b"one", "two-2.0.jar": b"two"})
    (ensure_jars() / "one-1.0.jar").write_bytes(b"o")
    assert (ensure_jars() / "one-1.0.jar").read_bytes() == b"one"
    assert calls == ["kafka", "kafka"]


def test_progress_is_told_by_tens():
    said: list[str] = []
    told = [f"found org#jar{number};1 in public\n" for number in range(12)]
    list(jars._follow(iter(told), "kafka", 12, said.append))
    assert said == ["looking up jars for kafka: 10 of 12", "looking up jars for kafka: 12 of 12"]
