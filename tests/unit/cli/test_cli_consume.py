"""Commands that are run for messages."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from meantime.cli.commands.topics.consume import CommandRunner, Release
from meantime.errors import StorageUnavailable
from meantime.sdk.messages import Topic

Released = list[tuple[float, str]]


def lease(released: Released, attempts: int = 1) -> Any:
    return SimpleNamespace(
        id="m",
        topic="t",
        attempts=attempts,
        reason=None,
        body={"n": 1},
        lost=False,
        release=lambda after, reason: released.append((after, reason)),
        delete=lambda: None,
    )


def endless() -> Topic:
    return Topic(name="t")


def test_a_command_that_does_not_read_its_message_fails_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    released: Released = []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        CommandRunner("exit 1", Release(2.0, None), 1, endless).work(iter([lease(released)] * 20))
    finally:
        sys.setswitchinterval(before)
    assert released == [(2.0, "the command ended with 1")] * 20
    assert capsys.readouterr().err.splitlines() == ["m: the command ended with 1; again in 2 s"] * 20


def test_messages_whose_last_command_failed_are_remembered() -> None:
    leases = [lease([]), lease([], attempts=2)]
    again = CommandRunner("test $MEANTIME_ATTEMPTS = 2", Release(2.0, None), 1, endless)
    again.work(iter(leases))
    never = CommandRunner("exit 1", Release(2.0, None), 1, endless)
    never.work(iter(leases))
    assert (again.failed, never.failed) == (set(), {"m"})


def away() -> Topic:
    raise StorageUnavailable("no answer")


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (lambda: Topic(name="t", max_attempts=3, dead_letter_topic="t.dead"), "that was attempt 3 of 3: moved to t.dead"),
        (lambda: Topic(name="t", max_attempts=3), "that was attempt 3 of 3: it stays in the topic as dead"),
        (lambda: Topic(name="t", max_attempts=4), "again in 2 s"),
        (away, "again in 2 s, unless this was its last attempt"),
    ],
)
def test_what_becomes_of_a_message_that_failed_is_said(
    capsys: pytest.CaptureFixture[str], topic: Callable[[], Topic], said: str
) -> None:
    CommandRunner("exit 1", Release(2.0, None), 1, topic).work(iter([lease([], attempts=3)]))
    assert capsys.readouterr().err.splitlines() == [f"m: the command ended with 1; {said}"]
