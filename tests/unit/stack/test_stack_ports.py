import socket
import sys
from collections.abc import Iterator

import pytest

from meantime.errors import StackError
from meantime.stack import ports


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_chosen_ports_are_free_and_differ():
    assigned = ports.assign({}, ["zookeeper", "postgres", "kafka-1"])
    assert len(set(assigned.values())) == 3
    assert all(ports.is_free(port) for port in assigned.values())


def test_chosen_ports_lie_below_those_of_outgoing_connections():
    assert all(port < ports._ephemeral_start() for port in ports.assign({}, ["a", "b", "c"]).values())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server in where a port is reserved")
def test_a_reserved_port_is_nobody_elses_choice_and_its_owner_listens_there(monkeypatch):
    mine, other = ports.choose(set()), ports.choose(set())
    drawn = iter([mine, mine, other])
    monkeypatch.setattr(ports.random, "randrange", lambda *_: next(drawn))
    with ports.reserved([mine]):
        assert ports.choose(set()) == other
        with socket.create_server(("127.0.0.1", mine)):
            assert not ports.is_free(mine)
        assert ports.is_free(mine)


def test_a_remembered_port_is_kept():
    port = ports.choose(set())
    assert ports.assign({"zookeeper": port}, ["zookeeper"]) == {"zookeeper": port}


def test_a_remembered_port_that_is_taken_is_an_error_that_names_it(taken):
    with pytest.raises(StackError, match=f"port {taken} of zookeeper is taken by another program"):
        ports.assign({"zookeeper": taken}, ["zookeeper"])


def test_a_wished_node_port_that_is_taken_is_an_error(taken):
    with pytest.raises(StackError, match=f"port {taken} of node-1 is taken.*--port"):
        ports.assign_nodes({}, 1, first=taken)


def test_nodes_follow_the_first_port(monkeypatch):
    monkeypatch.setattr(ports, "is_free", lambda port: True)
    assert ports.assign_nodes({}, 3, first=9000) == {"node-1": 9000, "node-2": 9001, "node-3": 9002}


def test_nodes_start_at_8080_where_that_is_free(monkeypatch):
    monkeypatch.setattr(ports, "is_free", lambda port: True)
    assert ports.assign_nodes({}, 2, first=None) == {"node-1": 8080, "node-2": 8081}


def test_nodes_go_elsewhere_when_8080_is_taken(monkeypatch):
    monkeypatch.setattr(ports, "is_free", lambda port, **_: port != 8081)
    assert not {8080, 8081} & set(ports.assign_nodes({}, 2, first=None).values())


def test_a_further_node_leaves_the_others_where_they_were():
    port = ports.choose(set())
    assigned = ports.assign_nodes({"node-1": port}, 2, first=None)
    assert assigned["node-1"] == port
    assert assigned["node-2"] != port
