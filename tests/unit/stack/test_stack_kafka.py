import pytest

from meantime.errors import StackError
from meantime.stack.services.kafka import Formatting, Listeners, _prepare

PORTS = Listeners(broker=1, controller=2)
UNUSED = ("false",)


def ids(home) -> dict[str, str]:
    lines = (home / "data" / "meta.properties").read_text().splitlines()
    return dict(line.split("=") for line in lines)


def test_a_new_storage_is_a_copy_of_the_first_with_ids_of_its_own(tmp_path):
    kept = tmp_path / "kept"
    kept.write_bytes(b"\x00features")
    for name in ("one", "two"):
        _prepare(tmp_path / name, PORTS, Formatting(UNUSED, kept))
        assert (tmp_path / name / "data" / "bootstrap.checkpoint").read_bytes() == b"\x00features"
    one, two = ids(tmp_path / "one"), ids(tmp_path / "two")
    assert (one["version"], one["node.id"]) == ("1", "1")
    assert len({one["cluster.id"], one["directory.id"], two["cluster.id"], two["directory.id"]}) == 4


def test_a_storage_that_is_there_keeps_its_ids(tmp_path):
    kept = tmp_path / "kept"
    kept.write_bytes(b"features")
    _prepare(tmp_path / "one", PORTS, Formatting(UNUSED, kept))
    before = ids(tmp_path / "one")
    _prepare(tmp_path / "one", PORTS, Formatting(UNUSED, kept))
    assert ids(tmp_path / "one") == before


def test_a_tool_that_fails_is_said_and_nothing_is_kept(tmp_path):
    kept = tmp_path / "kept"
    with pytest.raises(StackError, match="cannot set up the storage of one"):
        _prepare(tmp_path / "one", PORTS, Formatting(UNUSED, kept))
    assert not kept.exists()
