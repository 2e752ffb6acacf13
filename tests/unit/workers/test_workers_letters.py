"""Dead letters of workers, and the retries that they become when they are sent back."""

import json

import msgspec
import pytest

from meantime.workers.letters import DeadBody, PastAttempt, RetryBody, letter_id, retry_id, sent_back

HISTORY = [PastAttempt(1, "ValueError: no", 5_000), PastAttempt(2, "ValueError: never", 6_000)]
LETTER = DeadBody(
    event={"n": 1},
    event_type="orders",
    partition="0",
    cursor="001-0001-000000000000000007",
    error="ValueError: never",
    traceback="Traceback",
    attempts=2,
    written_at_ms=4_000,
    history=HISTORY,
)


def test_a_letter_goes_back_as_the_first_attempt_with_its_history():
    id, body = sent_back(msgspec.json.encode(LETTER))
    again = msgspec.json.decode(body, type=RetryBody)
    assert again.event == {"n": 1}
    assert (again.attempt, again.written_at_ms, again.history) == (1, 4_000, HISTORY)
    assert (again.event_type, again.partition, again.cursor) == ("orders", "0", LETTER.cursor)
    assert id == retry_id("orders", "0", LETTER.cursor, 1) == f"{letter_id('orders', '0', LETTER.cursor)}:1"


def test_the_event_of_a_letter_stays_as_it_is_to_the_last_digit():
    event = '{"total": 123456789012345678901234567890, "price": 1.10, "a": 1, "a": 2}'
    text = msgspec.json.encode(LETTER).decode().replace('{"n":1}', event)
    assert event in sent_back(text.encode())[1].decode()


def test_a_letter_without_the_time_of_its_event_has_that_of_its_first_failure():
    document = json.loads(msgspec.json.encode(LETTER))
    del document["written_at_ms"]
    assert json.loads(sent_back(json.dumps(document).encode())[1])["written_at_ms"] == 5_000
    del document["history"]
    assert json.loads(sent_back(json.dumps(document).encode())[1])["written_at_ms"] == 0


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"5", b'{"event": 1}', b'{"event": ' + b"[" * 5000 + b"]" * 5000 + b"}", b"\xff"]
)
def test_what_is_no_letter_is_not_sent_back(body):
    assert sent_back(body) is None
