"""Wrong keys are limited by address."""

import pytest

from meantime.access import attempts
from meantime.access.attempts import AT_ONCE, ONE_EVERY, WrongKeys, source_of
from meantime.errors import TooManyRequests


class Seconds:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def wrong_keys(seconds: Seconds) -> WrongKeys:
    return WrongKeys(seconds)


def try_wrong_keys(wrong_keys: WrongKeys, peer: str, count: int) -> None:
    for _ in range(count):
        wrong_keys.check(peer)
        wrong_keys.count(peer)


def test_a_few_wrong_keys_are_fine_and_more_have_to_wait(wrong_keys: WrongKeys, seconds: Seconds) -> None:
    try_wrong_keys(wrong_keys, "10.0.0.1", AT_ONCE)
    with pytest.raises(TooManyRequests) as refusal:
        wrong_keys.check("10.0.0.1")
    assert refusal.value.extras == {"retry_after": 1}
    seconds.now += ONE_EVERY
    try_wrong_keys(wrong_keys, "10.0.0.1", 1)
    with pytest.raises(TooManyRequests):
        wrong_keys.check("10.0.0.1")
    seconds.now += 3600
    try_wrong_keys(wrong_keys, "10.0.0.1", AT_ONCE)


def test_others_do_not_pay_for_it(wrong_keys: WrongKeys) -> None:
    try_wrong_keys(wrong_keys, "10.0.0.1", AT_ONCE)
    wrong_keys.check("10.0.0.2")


def test_many_addresses_take_no_more_than_a_stated_room(wrong_keys: WrongKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "ADDRESSES", 10)
    for number in range(100):
        wrong_keys.count(f"10.0.0.{number}")
    assert len(wrong_keys) == 10


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("", "", True),
    ],
)
def test_of_an_ipv6_address_the_network_counts(one: str, other: str, same: bool) -> None:
    assert (source_of(one) == source_of(other)) is same
