"""The decisions of topics, for all messages that could be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import Conflict, Invalid
from meantime.topics import rules
from meantime.topics.model import MessageStage, Position, RetryPolicy, Settings
from meantime.topics.settings import RetryChange, SettingsChange, applied, check

NOW_MS = 1_000_000
instants = st.integers(NOW_MS - 100, NOW_MS + 100)
names = st.text("abc:.-", min_size=1, max_size=8)


def message(
    at_ms: int = NOW_MS, lock: str | None = None, stage: MessageStage = MessageStage.OPEN, version: int = 3
) -> Position:
    return Position("id", at_ms, stage, version, 0, 0, "owners", lock, at_ms)


@given(instants, st.none() | names)
def test_the_past_is_available_whoever_held_it(at_ms: int, lock: str | None) -> None:
    status = rules.status(message(at_ms, lock), NOW_MS)
    if at_ms <= NOW_MS:
        assert status == "available"
    else:
        assert status == ("waiting" if lock is None else "processing")


@given(instants)
def test_a_last_attempt_is_dead_when_its_lease_is_over(at_ms: int) -> None:
    status = rules.status(message(at_ms, "c", MessageStage.LAST), NOW_MS)
    assert status == ("dead" if at_ms <= NOW_MS else "processing")


@given(instants, st.none() | names, st.sampled_from(["owners", "others"]), st.none() | names)
def test_only_the_owner_and_the_present_holder_read(at_ms: int, lock: str | None, group: str, consumer: str | None) -> None:
    allowed = rules.may_read(message(at_ms, lock), group, consumer, NOW_MS)
    holds = lock is not None and lock == consumer and at_ms > NOW_MS
    assert allowed == (group == "owners" or holds)


@given(instants, st.none() | names, st.none() | st.sampled_from([3, 4]))
def test_the_owner_cannot_break_a_lease(at_ms: int, lock: str | None, version: int | None) -> None:
    verdict = rules.judge_owner(message(at_ms, lock), "owners", version, NOW_MS)
    if version == 4:
        assert verdict == "stale_version"
    else:
        assert verdict == ("leased" if lock is not None and at_ms > NOW_MS else "ok")


def test_an_owner_hears_the_first_reason_that_applies() -> None:
    leased = message(NOW_MS + 1, "c")
    assert rules.judge_owner(None, "others", 9, NOW_MS) == "not_found"
    assert rules.judge_owner(leased, "others", 9, NOW_MS) == "forbidden"
    assert rules.judge_owner(leased, "owners", 9, NOW_MS) == "stale_version"
    assert rules.judge_owner(leased, "owners", 3, NOW_MS) == "leased"


def test_a_holder_hears_the_first_reason_that_applies() -> None:
    expired = message(NOW_MS, "c")
    assert rules.judge_holder(None, "x", 9, NOW_MS) == "not_found"
    assert rules.judge_holder(message(stage=MessageStage.GONE, lock="c"), "c", 3, NOW_MS) == "not_found"
    assert rules.judge_holder(expired, "x", 9, NOW_MS) == "not_holder"
    assert rules.judge_holder(expired, "c", 9, NOW_MS) == "stale_version"
    assert rules.judge_holder(expired, "c", 3, NOW_MS) == "expired"
    assert rules.judge_holder(message(NOW_MS + 1, "c"), "c", 3, NOW_MS) == "ok"


@given(st.none() | st.integers(), st.none() | st.integers())
def test_an_instant_is_given_in_exactly_one_way_and_never_lies_in_the_past(at_ms: int | None, after_ms: int | None) -> None:
    if (at_ms is None) == (after_ms is None):
        with pytest.raises(Invalid):
            rules.instant(at_ms, after_ms, NOW_MS)
    else:
        assert rules.instant(at_ms, after_ms, NOW_MS) >= NOW_MS


@given(st.integers(-10, 2000))
def test_a_position_lies_within_the_horizon(after_ms: int) -> None:
    settings = Settings(max_future_ms=1000)
    if after_ms > 1000:
        with pytest.raises(Invalid):
            rules.position(None, after_ms, settings, NOW_MS)
    else:
        assert NOW_MS <= rules.position(None, after_ms, settings, NOW_MS) <= NOW_MS + 1000


@given(st.integers(-10, 2000))
def test_a_lease_ends_a_few_milliseconds_ahead_and_not_beyond_its_limit(after_ms: int) -> None:
    wished = rules.consumer_instant(None, after_ms, 1000, NOW_MS)
    assert wished == (NOW_MS + after_ms if 5 <= after_ms <= 1000 else None)


@given(names, st.integers(1, 1024))
def test_an_id_is_in_the_same_bucket_for_ever(message_id: str, bucket_count: int) -> None:
    bucket = rules.bucket_of(message_id, bucket_count)
    assert 0 <= bucket < bucket_count
    assert bucket == rules.bucket_of(message_id, bucket_count)


def test_the_hash_of_an_id_never_changes_between_releases() -> None:
    assert [rules.bucket_of(one, 64) for one in ("a", "order-17", "user@example.org")] == [3, 20, 7]


@given(st.integers(1, 128), st.lists(names, max_size=40))
def test_buckets_are_dealt_completely_once_and_in_balance(bucket_count: int, consumers: list[str]) -> None:
    slices = rules.bucket_slices(bucket_count, consumers)
    dealt = [bucket for first, last in slices.values() for bucket in range(first, last + 1)]
    assert sorted(dealt) == (list(range(bucket_count)) if consumers else [])
    sizes = [last - first + 1 for first, last in slices.values()]
    sizes += [0] * (len(set(consumers)) - len(slices))
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(st.lists(names, min_size=1, max_size=9), st.randoms())
def test_dealing_does_not_depend_on_who_came_first(consumers: list[str], random: object) -> None:
    shuffled = list(consumers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rules.bucket_slices(64, consumers) == rules.bucket_slices(64, shuffled)


@given(st.lists(st.integers(0, 20), max_size=6), st.integers(0, 60))
def test_turns_fill_every_room_and_leave_nobody_behind(rooms: list[int], limit: int) -> None:
    turns = rules.interleave(rooms, limit)
    counts = [turns.count(index) for index in range(len(rooms))]
    assert len(turns) == min(limit, sum(rooms))
    assert all(count <= room for count, room in zip(counts, rooms, strict=True))
    unfilled = [count for count, room in zip(counts, rooms, strict=True) if count < room]
    assert not unfilled or max(counts) - min(unfilled) <= 1


def test_an_omitted_setting_keeps_its_value() -> None:
    before = Settings(max_attempts=3, dedupe_ms=7)
    assert applied(SettingsChange(dedupe_ms=9), before) == Settings(max_attempts=3, dedupe_ms=9)
    assert applied(SettingsChange(), None) == Settings()


def test_of_a_retry_policy_what_is_omitted_keeps_its_value() -> None:
    changed = applied(SettingsChange(retry=RetryChange(delay_ms=5)), Settings(retry=RetryPolicy(factor=3.0)))
    assert changed.retry == RetryPolicy(delay_ms=5, factor=3.0)
    assert applied(SettingsChange(), changed) == changed


def test_no_retry_goes_beyond_the_horizon_of_its_topic() -> None:
    assert rules.retry_policy(Settings(max_future_ms=1000)).max_ms == 1000
    assert rules.retry_policy(Settings()) == RetryPolicy()


@pytest.mark.parametrize("reason", ["x" * 1001, "a\x00b"])
def test_a_reason_that_cannot_be_kept_is_refused(reason: str) -> None:
    for fine in (None, "", "ü" * 1000):
        rules.check_reason(fine)
    with pytest.raises(Invalid, match="reason") as refused:
        rules.check_reason(reason)
    assert refused.value.extras["field"] == "reason"


def test_the_number_of_buckets_is_for_ever() -> None:
    assert applied(SettingsChange(bucket_count=64), Settings()) == Settings()
    with pytest.raises(Conflict):
        applied(SettingsChange(bucket_count=32), Settings())


@pytest.mark.parametrize(
    "wish",
    [
        SettingsChange(bucket_count=0),
        SettingsChange(max_lease_ms=1),
        SettingsChange(max_attempts=-1),
        SettingsChange(max_body_bytes=0),
        SettingsChange(retry=RetryChange(delay_ms=-1)),
        SettingsChange(retry=RetryChange(factor=0.5)),
        SettingsChange(retry=RetryChange(max_ms=-1)),
        SettingsChange(retry=RetryChange(jitter=1.5)),
    ],
)
def test_settings_out_of_bounds_are_refused(wish: SettingsChange) -> None:
    with pytest.raises(Invalid):
        check(wish)
