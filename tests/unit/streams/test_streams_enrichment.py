"""What is added to metadata, whichever way the event was written."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from meantime.streams.publishing.enrichment import Enrichment

ENRICHMENT = Enrichment("orders", "2026-11-18T10:00:00.000Z", "flow", "1.0.0")
ADDED = {"received_at": "2026-11-18T10:00:00.000Z", "event_type": "orders", "partition": "3", "version": "1.0.0"}
NESTED = {"metadata": {"eid": "x"}}

texts = st.one_of(st.sampled_from(["metadata", '"metadata"', '{"metadata":{', "\\", "ü"]), st.text(max_size=8))
metadata = st.dictionaries(st.sampled_from(["eid", "occurred_at", "flow_id", "version", "more"]), texts, min_size=1)
values = st.one_of(texts, st.integers(), st.none(), st.lists(texts, max_size=2), st.just(NESTED))
others = st.dictionaries(texts.filter(lambda name: name != "metadata"), values, max_size=4)


def enriched(raw: bytes) -> dict[str, object]:
    read = json.loads(raw)
    found: dict[str, object] = json.loads(ENRICHMENT.enrich(raw, read["metadata"], 3))
    return found


def expected(event: dict[str, object], metadata: dict[str, str]) -> dict[str, object]:
    return event | {"metadata": metadata | ADDED | {"flow_id": metadata.get("flow_id") or "flow"}}


@given(others, metadata, others, st.sampled_from([None, 1]), st.booleans())
@example({}, {"eid": "1"}, {}, None, False)
@example({"a": NESTED}, {"eid": "x"}, {}, None, False)
def test_metadata_are_completed_and_all_else_stays(before, metadata, after, indent, escaped):
    event = {**before, "metadata": metadata, **after}
    raw = json.dumps(event, indent=indent, ensure_ascii=escaped).encode()
    assert enriched(raw) == expected(event, metadata)


def test_of_metadata_that_are_named_twice_the_last_count():
    raw = b'{"metadata": {"eid": "1"}, "metadata" : {"eid": "2"}}'
    assert enriched(raw) == expected({}, {"eid": "2"})


def test_a_name_may_be_written_with_escapes():
    raw = rb'{"a": "\"metadata\":{", "\u006detadata": {"eid": "2"}}'
    assert enriched(raw) == expected({"a": '"metadata":{'}, {"eid": "2"})


def test_an_event_that_is_not_taken_apart_keeps_its_bytes():
    raw = b'{ "n" :  1.50, "metadata" : { "eid": "1" } }'
    written = ENRICHMENT.enrich(raw, {"eid": "1"}, 3)
    assert written.startswith(b'{ "n" :  1.50, "metadata":{"received_at":')
    assert written.endswith(b', "eid": "1" } }')
