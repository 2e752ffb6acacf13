"""What an event has to look like, and what becomes of a batch before it is sent."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import Invalid, Malformed
from meantime.streams.catalog.declarations import declare, redeclare
from meantime.streams.model import EventType
from meantime.streams.publishing.records import MAX_EVENT_BYTES, BatchRejected, RecordBuilder
from meantime.streams.publishing.splitting import split

NOW = 1_700_000_000_000
HOUR = 3_600_000
METADATA = {"eid": "d290f1ee-6c54-4b01-90e6-d701748f0851", "occurred_at": "2026-11-15T12:00:00+01:00"}


def declared(schema: object = None, **fields: Any) -> EventType:
    text = schema if isinstance(schema, str) else json.dumps(schema or {})
    document = {"name": "orders", "owning_application": "shop", "schema": {"type": "json_schema", "schema": text}}
    return declare(document | fields, NOW, HOUR)


def written(event_type: EventType, *events: object) -> list[Any]:
    records = RecordBuilder(event_type).records(json.dumps(events).encode(), "flow-1", NOW)
    return [json.loads(value) for value in records.values]


def rejected(event_type: EventType, *events: object) -> list[tuple[str, str]]:
    with pytest.raises(BatchRejected) as error:
        RecordBuilder(event_type).records(json.dumps(events).encode(), "flow-1", NOW)
    return [(item.publishing_status, item.step) for item in error.value.items]


# Bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b"[1]",
        b'[{"a":1}, 2]',
        b'[{"a":1}',
        b'[{"a":1}]]',
        b'[{"a":01}]',
        b'["\xff"]',
        b'[{"a":"\xff"}]',
    ],
)
def test_a_body_that_is_no_array_of_objects_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        split(body)


def test_a_body_nested_beyond_reason_is_malformed() -> None:
    with pytest.raises(Malformed):
        split(b"[" * 100_000 + b"]" * 100_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=5), st.sampled_from(["", " ", "\n"]))
def test_undefined_events_are_written_byte_for_byte(events: list[dict[str, Any]], space: str) -> None:
    sent = [json.dumps(event, separators=(f",{space}", f"{space}:")).encode() for event in events]
    body = b"[" + f"{space},{space}".encode().join(sent) + b"]"
    assert list(RecordBuilder(declared()).records(body, "f", NOW).values) == sent


# Schemas


def test_events_are_held_against_the_schema() -> None:
    orders = declared({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert written(orders, {"n": 1}) == [{"n": 1}]
    assert rejected(orders, {"n": 1}, {"n": "x"}, {}) == [
        ("aborted", "validating"),
        ("failed", "validating"),
        ("failed", "validating"),
    ]


@pytest.mark.parametrize("schema", ["", "x", "[]", '{"type": "nonsense"}', '{"properties": 5}', '{"$ref": "http://x/y"}'])
@pytest.mark.parametrize("category", ["undefined", "business", "data"])
def test_what_is_no_schema_is_refused_when_it_is_declared(schema: str, category: str) -> None:
    with pytest.raises(Invalid):
        declared(schema, category=category)


def test_schemas_of_old_drafts_are_read() -> None:
    orders = declared({"properties": {"n": {"minimum": 1, "exclusiveMinimum": True}}})
    assert rejected(orders, {"n": 1}) == [("failed", "validating")]


# Categories


def test_business_events_need_metadata_and_gain_more_of_it() -> None:
    orders = declared({"properties": {"n": {"type": "integer"}}, "additionalProperties": False}, category="business")
    (event,) = written(orders, {"n": 1, "metadata": METADATA})
    assert event["n"] == 1
    assert event["metadata"] == METADATA | {
        "received_at": "2023-11-14T22:13:20.000Z",
        "event_type": "orders",
        "partition": "0",
        "flow_id": "flow-1",
        "version": "1.0.0",
    }


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {"eid": "x"},
        {"occurred_at": METADATA["occurred_at"]},
        METADATA | {"occurred_at": "yesterday"},
        METADATA | {"eid": 5},
        METADATA | {"event_type": "payments"},
    ],
)
def test_business_events_with_wrong_metadata_fail(metadata: object) -> None:
    assert rejected(declared(category="business"), {"metadata": metadata}) == [("failed", "validating")]


def test_data_events_have_their_schema_below_data() -> None:
    orders = declared(
        {"type": "object", "properties": {"n": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "integer"}}},
        category="data",
    )
    event = {"data_op": "C", "data_type": "order", "data": {"n": 1}, "metadata": METADATA}
    assert written(orders, event)[0]["data"] == {"n": 1}
    for wrong in ({"data_op": "X"}, {"data": {"n": "x"}}, {"data_type": None}, {"metadata": {}}):
        assert rejected(orders, event | wrong) == [("failed", "validating")]


def test_a_schema_that_is_a_reference_does_not_hide_the_metadata() -> None:
    closed = {"properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    orders = declared({"$ref": "#/definitions/order", "definitions": {"order": closed}}, category="business")
    assert written(orders, {"n": 1, "metadata": METADATA})
    assert rejected(orders, {"n": 1}) == [("failed", "validating")]
    assert rejected(orders, {"n": 1, "more": 1, "metadata": METADATA}) == [("failed", "validating")]


def test_a_schema_of_data_may_refer_to_itself() -> None:
    tree = declared({"type": "object", "properties": {"child": {"$ref": "#"}}}, category="data")
    event = {"data_op": "C", "data_type": "tree", "data": {"child": {"child": {}}}, "metadata": METADATA}
    assert written(tree, event)
    assert rejected(tree, event | {"data": {"child": {"child": 5}}}) == [("failed", "validating")]


def test_a_schema_may_mention_the_metadata_of_its_events() -> None:
    orders = declared({"properties": {"metadata": {"type": "object"}}, "required": ["metadata"]}, category="business")
    assert written(orders, {"metadata": METADATA})


def test_an_event_nested_beyond_reason_fails() -> None:
    orders = declared({"properties": {"n": {"type": "integer"}}})
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    assert rejected(orders, {"n": deep}) == [("failed", "validating")]


def test_the_flow_id_of_the_publisher_is_kept() -> None:
    (event,) = written(declared(category="business"), {"metadata": METADATA | {"flow_id": "mine"}})
    assert event["metadata"]["flow_id"] == "mine"


def test_what_is_beside_the_metadata_keeps_its_bytes() -> None:
    body = b'[{"price":1.10,"big":123456789012345678901234567890,"metadata":%s}]' % msgspec.json.encode(METADATA)
    (value,) = RecordBuilder(declared(category="business")).records(body, "f", NOW).values
    assert b'"price":1.10,"big":123456789012345678901234567890' in value


# Sizes and places


def test_an_event_over_the_limit_fails_and_one_at_it_does_not() -> None:
    frame = len(json.dumps({"x": ""}))
    at_limit = {"x": "a" * (MAX_EVENT_BYTES - frame)}
    assert written(declared(), at_limit) == [at_limit]
    over = {"x": at_limit["x"] + "a", "metadata": {"eid": "e1"}}
    with pytest.raises(BatchRejected) as error:
        RecordBuilder(declared()).records(json.dumps([over]).encode(), "f", NOW)
    (item,) = error.value.items
    assert (item.eid, item.publishing_status, item.step) == ("e1", "failed", "validating")


def test_an_event_without_its_key_fails_at_partitioning() -> None:
    orders = declared(partition_strategy="hash", partition_key_fields=["id"])
    assert rejected(orders, {"id": 1}, {"n": 1}) == [("aborted", "partitioning"), ("failed", "partitioning")]


# Declarations


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "1orders"},
        {"name": "orders..x"},
        {"name": "x" * 256},
        {"category": "other"},
        {"partition_strategy": "other"},
        {"partition_strategy": "hash"},
        {"default_statistic": {"read_parallelism": 33, "write_parallelism": 1}},
        {"default_statistic": {"read_parallelism": 0, "write_parallelism": 1}},
        {"options": {"retention_time": HOUR - 1}},
        {"options": {"retention_time": "x"}},
        {"schema": {"type": "avro_schema", "schema": "{}"}},
        {"cleanup_policy": "never"},
        {"owning_application": 5},
        {"owning_application": "a\x00b"},
        {"labels": {"x": ["\x00"]}},
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        declared(**wrong)


def test_null_counts_as_absent_and_unknown_fields_are_ignored() -> None:
    orders = declared(options=None, default_statistic=None, partition_strategy=None, colour="red", updated_at=5)
    assert orders.partitions == 1
    assert orders.retention_ms == 2 * 24 * HOUR
    assert "colour" not in orders.document


def test_partitions_are_the_greater_of_the_two_parallelisms() -> None:
    assert declared(default_statistic={"read_parallelism": 2, "write_parallelism": 5}).partitions == 5


def test_an_update_keeps_what_it_does_not_mention() -> None:
    before = declared(options={"retention_time": HOUR}, default_statistic={"read_parallelism": 4, "write_parallelism": 1})
    after = redeclare(before, {"owning_application": "billing"}, NOW + 1, HOUR)
    assert (after.retention_ms, after.partitions, after.document["owning_application"]) == (HOUR, 4, "billing")
    assert after.document["created_at"] == before.document["created_at"]


def test_an_update_of_the_schema_counts_its_version_up() -> None:
    before = declared()
    after = redeclare(before, {"schema": {"type": "json_schema", "schema": '{"type":"object"}'}}, NOW, HOUR)
    assert (before.document["schema"]["version"], after.document["schema"]["version"]) == ("1.0.0", "1.1.0")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"category": "business"},
        {"cleanup_policy": "compact"},
        {"default_statistic": {"read_parallelism": 2, "write_parallelism": 2}},
    ],
)
def test_what_cannot_be_changed_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        redeclare(declared(), change, NOW, HOUR)
