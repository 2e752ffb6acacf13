"""Options of the Spark sources: read, defaulted, and named when they are wrong."""

from datetime import UTC, datetime

import pytest

from meantime.errors import Invalid
from meantime.pipelines.buffer.model import Endpoint, buffer_name, endpoint
from meantime.pipelines.spark.options import events_options, topic_options

FOUND = {"url": "http://here", "postgres": "postgresql://here", "key": "k", "parallelism": "4"}


def test_what_is_not_given_comes_from_the_environment() -> None:
    options = topic_options({"topic": "t"}, FOUND)
    assert (options.broker.url, options.broker.key, options.postgres) == ("http://here", "k", "postgresql://here")
    assert options.parallelism == 4


def test_another_cluster_does_not_get_this_ones_database_and_key() -> None:
    options = topic_options({"topic": "t", "url": "http://there"}, FOUND)
    assert (options.broker.url, options.broker.key, options.postgres) == ("http://there", None, None)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "event_type"),
        ({"event_typ": "a"}, "did you mean 'event_type'"),
        ({"event_type": "a", "max_per_batch": "many"}, "'max_per_batch' is a whole number"),
        ({"event_type": "a", "max_per_batch": "0"}, "'max_per_batch' is from 1"),
        ({"event_type": "a", "starting": "soon"}, "option 'starting'"),
        ({"event_type": "a", "via": "pigeon"}, "'via' is one of kafka, http"),
        ({"event_type": "a", "written_from": "yesterday"}, "'written_from' is an instant"),
        ({"event_type": "a", "kafka.east": "x"}, "kafka.<storage>.<setting>"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(Invalid, match=named.replace(".", r"\.")):
        events_options(given, FOUND)


def test_without_a_url_it_is_asked_for() -> None:
    with pytest.raises(Invalid, match="option 'url'"):
        events_options({"event_type": "a"}, {})


def test_cursors_come_as_a_list_or_short() -> None:
    listed = events_options({"event_type": "a", "starting": '[{"partition": "0", "offset": "BEGIN"}]'}, FOUND)
    short = events_options({"event_type": "a", "starting": '{"0": "BEGIN"}'}, FOUND)
    assert listed.starting == short.starting == {"0": "BEGIN"}


def test_settings_of_kafka_go_to_their_storage() -> None:
    options = events_options({"event_type": "a", "kafka.east.sasl.password": "s"}, FOUND)
    assert options.kafka == {"east": {"sasl.password": "s"}}


def test_an_instant_without_a_zone_is_utc() -> None:
    options = events_options({"event_type": "a", "written_from": "2026-05-01T09:00:00"}, FOUND)
    assert options.written_from == datetime(2026, 5, 1, 9, tzinfo=UTC)


def test_the_ends_of_a_buffer_are_topics_or_event_types() -> None:
    assert endpoint("orders", "--from") == Endpoint("orders")
    assert endpoint("event-type:shop.orders", "--to") == Endpoint("shop.orders", is_event_type=True)
    with pytest.raises(Invalid, match="--to is a Kafka topic"):
        endpoint("no such/topic", "--to")


def test_the_same_ends_are_the_same_buffer() -> None:
    assert buffer_name(Endpoint("a"), Endpoint("b", is_event_type=True)) == "buffer.a.event-type:b"
    long = buffer_name(Endpoint("a" * 200), Endpoint("b" * 200))
    assert len(long) <= 128
    assert long == buffer_name(Endpoint("a" * 200), Endpoint("b" * 200))
