"""What a dispatcher looks at of all that is requested."""

from confluent_kafka import Message

from meantime.timers.dispatching.consumers import RequestFilter
from meantime.timers.rules import share_of

NEAR = 1_800_000_000
SHARES = 6
Headers = list[tuple[str, bytes | None]]


def request(key: bytes | None, value: bytes = b"future", headers: Headers | None = None) -> Message:
    return Message(
        topic="timer-request", partition=0, offset=1, key=key, value=value, headers=headers or [], timestamp=(1, 2)
    )


def looked_at(*messages: Message) -> list[bytes | None]:
    every_one = RequestFilter(SHARES, range(SHARES))
    return [record.key for record in every_one.records(list(messages), NEAR)]


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


def test_timers_and_cancels_of_other_shares_are_passed_over_by_their_token():
    tokens = [f"timer-{number}" for number in range(100)]
    messages = [request(b"1800000000", headers=[("token", token.encode())]) for token in tokens]
    messages += [request(b"1900000000", b"", [("cancel", token.encode())]) for token in tokens]
    for mine in ({2, 5}, set(), set(range(SHARES))):
        found = [record.headers[0][1].decode() for record in RequestFilter(SHARES, mine).records(messages, NEAR)]
        assert found == 2 * [token for token in tokens if share_of(token, SHARES) in mine]


def test_whose_a_request_is_without_a_token_or_with_more_than_that_is_found_out_by_who_opens_it():
    nobody = RequestFilter(SHARES, ())
    unclear: list[Headers] = [[], [("other", b"a")], [("token", None)], [("token", b"a"), ("trace", b"b")]]
    messages = [request(b"1800000000", headers=headers) for headers in unclear]
    assert len(list(nobody.records(messages, NEAR))) == len(unclear)
