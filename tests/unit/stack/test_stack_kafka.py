import pytest

from meantime.errors import StackError
from meantime.stack.services.kafka import Cluster, Listeners, _prepare

PORTS = Listeners(broker=1, controller=2)


def test_a_storage_that_is_there_is_not_formatted_again(tmp_path):
    (tmp_path / "one" / "data").mkdir(parents=True)
    (tmp_path / "one" / "data" / "meta.properties").write_text("cluster.id=first")
    _prepare(tmp_path / "one", PORTS, ("false",))
    assert (tmp_path / "one" / "data" / "meta.properties").read_text() == "cluster.id=first"


def test_a_tool_that_fails_is_named(tmp_path):
    with pytest.raises(StackError, match="cannot set up the storage of one"):
        _prepare(tmp_path / "one", PORTS, ("false",))


def settings_of(home, ports: Listeners, cluster: Cluster) -> dict[str, str]:
    (home / "data").mkdir(parents=True)
    (home / "data" / "meta.properties").touch()
    _prepare(home, ports, ("false",), cluster)
    return dict(line.split("=", 1) for line in (home / "server.properties").read_text().splitlines())


def test_brokers_of_a_cluster_know_each_other_and_two_of_them_have_what_is_acknowledged(tmp_path):
    brokers = (Listeners(1, 2), Listeners(3, 4), Listeners(5, 6))
    settings = settings_of(tmp_path / "one", brokers[1], Cluster("id", brokers))
    assert settings["node.id"] == "2"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:2,2@127.0.0.1:4,3@127.0.0.1:6"
    assert {value for name, value in settings.items() if name.endswith("replication.factor")} == {"3"}
    assert {value for name, value in settings.items() if name.endswith(("min.isr", "insync.replicas"))} == {"2"}
    assert "log.flush.interval.messages" not in settings


def test_a_durable_broker_writes_every_batch_to_the_disk(tmp_path):
    assert settings_of(tmp_path / "one", PORTS, Cluster(durable=True))["log.flush.interval.messages"] == "1"
