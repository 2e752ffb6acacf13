"""Decisions of switches and storages that need no service."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from meantime.errors import Invalid
from meantime.kafka.sealing import SIZE_LIMIT, TIMESTAMP_LIMIT, TIMESTAMP_TYPE, _changes
from meantime.names import check_event_type
from meantime.streams.catalog.storages import read_storage, show_storage
from meantime.streams.catalog.timeline_topics import topic_name
from meantime.streams.switching.fault_points import VARIABLE, passing
from meantime.streams.switching.model import Switch, SwitchOwner, SwitchState, notice_of, read_notice

SWITCH = Switch(
    id=uuid4(),
    event_type="orders",
    state=SwitchState.PREPARING,
    epoch=1,
    owner=SwitchOwner("node-1", "abc"),
    force=False,
    old_storage_id="default",
    old_topic="orders.1.aaaa",
    old_settings={},
    storage_id="kafka-2",
    new_topic="orders.2.bbbb",
    timeline_id=uuid4(),
    idempotency_key=None,
    started_at_ms=0,
)


def test_only_what_is_past_the_commit_is_finished_and_the_rest_rolled_back() -> None:
    past = {state for state in SwitchState if replace(SWITCH, state=state).past_the_commit}
    running = {state for state in SwitchState if replace(SWITCH, state=state).running}
    assert past == {SwitchState.COMMITTED, SwitchState.DONE}
    assert running == set(SwitchState) - {SwitchState.DONE, SwitchState.FAILED}


def test_nodes_can_read_what_the_lock_tells_them() -> None:
    notice = read_notice(notice_of(replace(SWITCH, force=True)))
    assert notice is not None
    assert (notice.storage_id, notice.topic, notice.force) == ("kafka-2", "orders.2.bbbb", True)


@pytest.mark.parametrize("data", [b"", b"somebody else", b"[]", b"\xff", b'{"switch": 5}'])
def test_a_lock_of_another_client_may_hold_anything(data: bytes) -> None:
    assert read_notice(data) is None


def test_the_longest_name_of_an_event_type_still_makes_a_topic() -> None:
    name = check_event_type("x" * 255)
    assert len(topic_name(name, 65535, "0123abcd")) <= 249


# Seals


def settings(kind: str = "CreateTime", ahead: str = "3600000") -> dict[str, tuple[str, bool]]:
    return {SIZE_LIMIT: ("1048588", False), TIMESTAMP_TYPE: (kind, False), TIMESTAMP_LIMIT: (ahead, False)}


def test_a_topic_that_refuses_the_future_is_sealed_by_one_setting() -> None:
    assert _changes(settings()) == {SIZE_LIMIT: "0"}


@pytest.mark.parametrize("adopted", [settings(kind="LogAppendTime"), settings(ahead="9223372036854775807")])
def test_a_topic_that_would_store_a_probe_is_told_to_refuse_it_with_the_seal(adopted: dict[str, tuple[str, bool]]) -> None:
    assert set(_changes(adopted)) == {SIZE_LIMIT, TIMESTAMP_TYPE, TIMESTAMP_LIMIT}


# Storages


def storage(servers: object = "a:9092,b:9092", id: object = "second", **settings: object) -> dict[str, Any]:
    return {
        "id": id,
        "storage_type": "kafka",
        "kafka_configuration": {"bootstrap_servers": servers, "settings": settings},
    }


def test_secrets_go_in_and_never_come_out() -> None:
    given = storage(
        **{
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "p1",
            "ssl.key.password": "p2",
            "ssl.key.pem": "p3",
            "ssl.keystore.password": "p4",
            "sasl.oauthbearer.client.secret": "p5",
            "client.id": "me",
        }
    )
    kept = read_storage(given)
    assert kept.settings["sasl.password"] == "p1"
    shown = show_storage(kept)["kafka_configuration"]["settings"]
    assert shown == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "client.id": "me"}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"id": "x"},
        storage(id="a b"),
        storage(id=5),
        storage(servers=""),
        storage(servers="a b"),
        storage(servers=["a:1"]),
        {**storage(), "storage_type": "pulsar"},
        storage(acks="0"),
        storage(**{"enable.idempotence": "false"}),
        storage(**{"plugin.library.paths": "/tmp/x.so"}),
        storage(**{"ssl.engine.location": "/tmp/x.so"}),
        storage(**{"sasl.kerberos.kinit.cmd": "rm -rf /"}),
        storage(**{"bootstrap.servers": "elsewhere:9092"}),
        storage(**{"client.id": {"a": 1}}),
    ],
)
def test_a_storage_that_makes_no_sense_or_is_dangerous_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        read_storage(given)


def test_numbers_and_truth_values_are_taken_for_settings() -> None:
    kept = read_storage(storage(**{"socket.timeout.ms": 5000, "socket.keepalive.enable": True}))
    assert kept.settings == {"socket.timeout.ms": "5000", "socket.keepalive.enable": "true"}


# Faults


def test_without_a_plan_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    passing("committed")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "plan"))
    passing("committed")
    (tmp_path / "plan").write_text("sealed kill")
    passing("committed")
    assert (tmp_path / "plan").exists()
