"""Times, delays and names of workers."""

import re

import pytest

from meantime.errors import CorruptRecord, Invalid
from meantime.workers.layout import app_layout, namespace_path
from meantime.workers.model import QueueRecord, QueueSource, WorkerRecord, decode, encode
from meantime.workers.rules import backoff, cursors_up_to, inputs_of, instant_of, jittered, last_of


def test_last_counts_from_the_gregorian_reform():
    assert instant_of("135471512647131000L") == 1_327_858_464_713
    assert last_of(0) == "122192928000000000L"


def test_last_comes_back_as_the_same_instant():
    assert instant_of(last_of(1_700_000_000_123)) == 1_700_000_000_123


@pytest.mark.parametrize("head", ["001-0001-", "001-00ff-", ""])
def test_cursors_of_neighbours_are_counted_back_from_the_last(head):
    assert cursors_up_to(f"{head}{7:018d}", 3) == [f"{head}{number:018d}" for number in (5, 6, 7)]
    assert cursors_up_to(f"{head}{0:018d}", 1) == [f"{head}{0:018d}"]


@pytest.mark.parametrize("text", ["", "L", "yesterday", "12x4L"])
def test_what_is_no_time_is_none(text):
    assert instant_of(text) is None


def test_a_queue_is_named_by_event_type_and_partition():
    ids = {QueueSource(name, partition).queue for name in ("orders", "orders.1", "users") for partition in ("0", "1", "11")}
    assert len(ids) == 9
    assert all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)
    assert QueueSource("orders", "0").queue == QueueSource("orders", "0").queue


def test_a_new_queue_has_an_empty_last():
    record = decode(QueueRecord, "/q", encode(QueueRecord(event_type="orders", partition="0")))
    assert (record.last, record.cursor, record.paused) == ("", "", False)
    assert encode(WorkerRecord()) == b'{"queues":[]}'


def test_a_record_of_the_seed_can_be_read():
    assert decode(QueueRecord, "/q", b'{"last": "135471512647131000L"}').last == "135471512647131000L"


@pytest.mark.parametrize("data", [b"{", b'{"last": 5}', b"\xff\xfe", b"[]"])
def test_a_corrupt_record_is_named_by_its_path(data):
    with pytest.raises(CorruptRecord, match="/apps/sync/queues/q"):
        decode(QueueRecord, "/apps/sync/queues/q", data)


def test_delays_grow_up_to_the_longest():
    assert [backoff(attempt, 1.0, 2.0, 10.0) for attempt in (1, 2, 3, 4, 5)] == [1.0, 2.0, 4.0, 8.0, 10.0]
    assert backoff(10_000, 1.0, 2.0, 60.0) == 60.0


def test_jitter_stays_within_its_fraction():
    assert jittered(10.0, 0.1, lambda: 0.0) == pytest.approx(9.0)
    assert jittered(10.0, 0.1, lambda: 1.0) == pytest.approx(11.0)


def test_inputs_depend_on_who_is_there_and_not_on_order():
    assert inputs_of(["a", "b"], ["q"]) == inputs_of(["b", "a"], ["q"]) != inputs_of(["a"], ["b", "q"])


def test_a_namespace_is_below_the_root_or_a_path_of_its_own():
    assert namespace_path("/meantime") == "/meantime/apps"
    assert namespace_path("/meantime", "/mozilla/services/qdo/") == "/mozilla/services/qdo"
    assert app_layout("/mozilla/services/qdo", "sync").queue("q") == "/mozilla/services/qdo/sync/queues/q"


@pytest.mark.parametrize("name", ["", "a/b", "..", "ä", "x" * 101])
def test_an_application_must_have_a_plain_name(name):
    with pytest.raises(Invalid):
        app_layout("/apps", name)
