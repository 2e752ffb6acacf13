from pathlib import Path

import pytest

from meantime.errors import StackError
from meantime.stack.discovery import data_path, discover, find
from meantime.stack.folder import Folder, StackState
from meantime.stack.model import NodeAddress, Places

PLACES = Places(
    nodes=(NodeAddress("node-1", "http://127.0.0.1:8080"), NodeAddress("node-2", "http://127.0.0.1:8081")),
    zookeeper="127.0.0.1:2181/meantime",
    kafka=("127.0.0.1:9092", "127.0.0.1:9093"),
    postgres="postgresql://somewhere/meantime",
)


@pytest.fixture
def stack(tmp_path):
    folder = Folder(tmp_path)
    with folder.locked():
        folder.write(StackState(places=PLACES))
        yield tmp_path


def test_a_running_stack_is_found_by_its_directory(stack):
    found = discover(stack, {})
    assert found.url == "http://127.0.0.1:8080"
    assert found.urls == ("http://127.0.0.1:8080", "http://127.0.0.1:8081")
    assert found.zookeeper == "127.0.0.1:2181/meantime"
    assert found.kafka == "127.0.0.1:9092;127.0.0.1:9093"
    assert found.postgres == "postgresql://somewhere/meantime"
    assert found.key is None


def test_the_environment_comes_before_the_stack(stack):
    found = discover(stack, {"MEANTIME_URL": "http://elsewhere", "MEANTIME_KEY": "secret"})
    assert found.url == "http://elsewhere"
    assert found.urls == ("http://elsewhere",)
    assert found.key == "secret"


def test_a_stack_that_has_stopped_is_not_found(tmp_path):
    Folder(tmp_path).write(StackState(places=PLACES))
    assert find(tmp_path) is None
    with pytest.raises(StackError, match=f"no running stack in {tmp_path} and MEANTIME_URL is not set.*meantime up"):
        _ = discover(tmp_path, {}).url


def test_the_directory_comes_from_the_flag_then_the_environment_then_here():
    assert data_path(Path("a"), {"MEANTIME_DATA": "b"}) == Path("a")
    assert data_path(None, {"MEANTIME_DATA": "b"}) == Path("b")
    assert data_path(None, {}) == Path(".meantime")
