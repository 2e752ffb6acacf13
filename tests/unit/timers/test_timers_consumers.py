"""What a dispatcher looks at of all that is requested."""

from confluent_kafka import Message

from meantime.timers.dispatching.consumers import near_or_empty

NEAR = 1_800_000_000


def request(key: bytes | None, value: bytes = b"future") -> Message:
    return Message(topic="timer-request", partition=0, offset=1, key=key, value=value, headers=[], timestamp=(1, 2))


def looked_at(*messages: Message) -> list[bytes | None]:
    return [record.key for record in near_or_empty(list(messages), NEAR)]


def test_timers_that_are_far_are_passed_over():
    assert looked_at(request(b"1800000000"), request(b"1800000001"), request(b"1799999999"), request(b"1900000000")) == [
        b"1800000000",
        b"1799999999",
    ]


def test_cancels_are_looked_at_however_far_they_are():
    assert looked_at(request(b"1900000000", b"")) == [b"1900000000"]


def test_keys_that_are_no_seconds_of_these_years_are_looked_at():
    assert looked_at(request(None), request(b""), request(b"9"), request(b"18000000010")) == [
        None,
        b"",
        b"9",
        b"18000000010",
    ]
