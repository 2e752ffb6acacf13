import pytest

from meantime.errors import StackError
from meantime.stack.services.kafka import Listeners, _prepare

PORTS = Listeners(broker=1, controller=2)


def test_a_storage_that_is_there_is_not_formatted_again(tmp_path):
    (tmp_path / "one" / "data").mkdir(parents=True)
    (tmp_path / "one" / "data" / "meta.properties").write_text("cluster.id=first")
    _prepare(tmp_path / "one", PORTS, ("false",))
    assert (tmp_path / "one" / "data" / "meta.properties").read_text() == "cluster.id=first"


def test_a_tool_that_fails_is_named(tmp_path):
    with pytest.raises(StackError, match="cannot set up the storage of one"):
        _prepare(tmp_path / "one", PORTS, ("false",))
