import sys
from pathlib import Path

import pytest

from meantime.errors import MissingExtra, StackError
from meantime.stack import class_archives, plan, ports
from meantime.stack.folder import Folder, StackState
from meantime.stack.java.runtime import Java
from meantime.stack.model import Places, Spec, StackOptions
from meantime.stack.supervisor import serve


def spec(name: str, *depends: str) -> Spec:
    return Spec(kind="test", name=name, command=(), log=Path(), depends=depends)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Of a user who has everything that is fetched or made once."""
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(plan, "are_missing", lambda conf: False)
    monkeypatch.setattr(plan, "missing_archives", lambda java, kinds: ())


def specs(tmp_path: Path, **asked) -> dict[str, Spec]:
    folder, options = Folder(tmp_path), StackOptions(data=str(tmp_path), **asked)
    size = plan.size_of(options, StackState())
    numbers = plan.ports_of(size, options, StackState())
    places = plan.places_of(folder, size, numbers)
    java = Java(Path("java"), 17, bundled=False)
    return {made.name: made for made in plan.specs_of(folder, options, places, numbers, java)}


def test_a_stack_has_the_size_that_is_asked_for():
    assert plan.size_of(StackOptions(data="x", nodes=3, kafka=2), StackState(nodes=1, kafka=1)) == plan.Size(3, 2)


def test_a_stack_has_the_size_of_the_last_time_when_nothing_is_asked():
    assert plan.size_of(StackOptions(data="x"), StackState(nodes=5, kafka=2)) == plan.Size(5, 2)


def test_a_stack_without_kafka_is_refused():
    with pytest.raises(StackError, match="at least one Kafka"):
        plan.size_of(StackOptions(data="x", kafka=0), StackState())


@pytest.mark.parametrize("number", [-1, 0, 2, 4, 5])
def test_there_are_one_or_three_replicas(number):
    with pytest.raises(StackError, match=f"1 or 3 replicas of each service, not {number}"):
        plan.size_of(StackOptions(data="x", replicas=number), StackState())


@pytest.mark.parametrize(("made_with", "asked"), [(1, 3), (3, 1)])
def test_a_data_directory_keeps_its_number_of_replicas(made_with, asked):
    made = StackState(replicas=made_with, places=Places((), "z", (), "p"))
    assert plan.size_of(StackOptions(data="x"), made).replicas == made_with
    assert plan.size_of(StackOptions(data="x", replicas=made_with), made).replicas == made_with
    with pytest.raises(StackError, match=f"x was made with --replicas {made_with}"):
        plan.size_of(StackOptions(data="x", replicas=asked), made)


def test_replicas_without_their_extra_are_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "patroni", None)
    with pytest.raises(MissingExtra, match=r"pip install 'meantime\[ha\]'"):
        serve(StackOptions(data=str(tmp_path / "data"), replicas=3), lambda _: None)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"lock", "logs", "stack.json"}
    assert Folder(tmp_path / "data").read().places is None


def test_with_replicas_every_service_is_three_processes_and_every_address_has_three_hosts(tmp_path):
    made = specs(tmp_path, nodes=1, kafka=2, replicas=3, timers=False)
    zookeepers = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
    databases = ("postgres-1", "postgres-2", "postgres-3")
    brokers = tuple(f"kafka-{cluster}-{broker}" for cluster in (1, 2) for broker in (1, 2, 3))
    assert tuple(made) == (*zookeepers, *brokers, *databases, "migrate", "node-1")
    assert {made[name].depends for name in databases} == {zookeepers}
    assert made["migrate"].depends == databases
    environment = made["node-1"].env
    assert [cluster.count(",") for cluster in environment["MEANTIME_KAFKA"].split(";")] == [2, 2]
    assert environment["MEANTIME_ZOOKEEPER"].count(",") == environment["MEANTIME_POSTGRES"].count(",") == 2


def test_nodes_wait_for_every_service_and_for_the_schema(tmp_path):
    made = specs(tmp_path, nodes=2, kafka=2, timers=False)
    assert list(made) == ["zookeeper", "kafka-1", "kafka-2", "postgres", "migrate", "node-1", "node-2"]
    assert made["node-2"].depends == ("zookeeper", "kafka-1", "kafka-2", "postgres", "migrate")


def test_a_first_start_fetches_jars_beside_the_others_and_only_those_who_run_on_them_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "are_missing", lambda conf: True)
    made = specs(tmp_path, nodes=1, kafka=2)
    assert [name for name, spec in made.items() if "jars-kafka" in spec.depends] == ["kafka-1", "kafka-2", "futures"]
    assert [name for name, spec in made.items() if "jars-spark" in spec.depends] == ["futures"]
    assert made["jars-kafka"].depends == made["jars-spark"].depends == ()
    assert {name for name, spec in made.items() if spec.late} == {"jars-spark", "futures"}


def test_nobody_waits_for_class_archives_and_they_wait_for_everybody(tmp_path, monkeypatch):
    for module in (plan, class_archives):
        monkeypatch.setattr(module, "missing_archives", lambda java, kinds: ("kafka", "futures"))
    made = specs(tmp_path, nodes=1, class_archives=True)
    archives = made.pop("class-archives")
    assert set(archives.depends) == made.keys()
    assert (archives.command[-2:], archives.late, archives.once, archives.optional) == (
        ("kafka", "futures"),
        True,
        True,
        True,
    )
    assert not [name for name, spec in made.items() if "class-archives" in spec.depends]
    assert "class-archives" not in specs(tmp_path, nodes=1)


def test_spark_starts_after_the_others_unless_they_are_waited_for_together(tmp_path):
    assert set(specs(tmp_path, nodes=1)["futures"].depends) >= {"node-1", "dispatcher-1", "ledger-1"}
    assert "node-1" not in specs(tmp_path, nodes=1, wait_for_late=True)["futures"].depends


def test_processes_of_timers_start_after_nodes_unless_all_are_waited_for_together(tmp_path):
    for name in ("oscillator-1", "dispatcher-1", "ledger-1"):
        assert "node-2" in specs(tmp_path, nodes=2)[name].depends
        assert "node-2" not in specs(tmp_path, nodes=2, wait_for_late=True)[name].depends
        assert "migrate" in specs(tmp_path, nodes=0)[name].depends


def test_timers_can_be_left_out(tmp_path):
    processes = specs(tmp_path, nodes=1).keys() - specs(tmp_path, nodes=1, timers=False).keys()
    assert processes == {"oscillator-1", "oscillator-2", "futures", "dispatcher-1", "ledger-1"}


def test_nodes_are_told_where_everything_is(tmp_path):
    environment = specs(tmp_path, nodes=1, kafka=2, node_env={"MEANTIME_AUTH": "true"})["node-1"].env
    assert environment["MEANTIME_KAFKA"].count(";") == 1
    assert environment["MEANTIME_POSTGRES"].startswith("postgresql://meantime:")
    assert "/" not in environment["MEANTIME_ZOOKEEPER"]
    assert environment["MEANTIME_AUTH"] == "true"


def test_ports_of_what_does_not_run_this_time_stay_reserved():
    first = ports.choose(set())
    numbers = plan.ports_of(plan.Size(0, 1), StackOptions(data="x"), StackState(ports={"kafka-2": first}))
    assert numbers["kafka-2"] == first
    assert len(set(numbers.values())) == len(numbers)


def test_levels_count_the_steps_from_what_depends_on_nothing():
    assert plan.levels((spec("a"), spec("b", "a"), spec("c", "a", "b"), spec("d"))) == {"a": 0, "b": 1, "c": 2, "d": 0}
