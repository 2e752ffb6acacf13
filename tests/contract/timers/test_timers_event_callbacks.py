"""Callbacks into event types on a real Kafka: each is published once, whoever has its share."""

import asyncio
import time
from collections import Counter

import pytest
import timers_dispatching
from timers_dispatching import Events, dispatcher, due, read, refusals, soon

from meantime.timers.model import TimerState, read_outcomes
from meantime.timers.topics import DONE, REJECTED

pytestmark = pytest.mark.takes(seconds=90)
kafka, store, mark = timers_dispatching.kafka, timers_dispatching.store, timers_dispatching.mark


async def test_an_event_is_attempted_once_told_and_ended(kafka, store, mark):
    events = Events("it is wrong")
    rejected = kafka.tail(REJECTED)
    async with dispatcher(kafka, store, events=events):
        second = soon(1)
        due(kafka, second, "event-type:orders", f"{mark}-good")
        due(kafka, second, "event-type:orders", f"{mark}-bad")
        kafka.flush()
        refused = await refusals(rejected, mark, 1)
    assert (events.sent, events.looked) == ([f"{mark}-good"], [])
    assert refused == {f"{mark}-bad": "it is wrong"}


async def test_an_attempt_without_an_end_is_looked_up_by_the_next_dispatcher(kafka, store, mark):
    """Whichever way it went; and it is told again and again while it lasts, so that nobody forgets it."""
    silent, next_ones = Events(None, may_go_on=asyncio.Event()), Events(None)
    next_ones.sent.append(f"{mark}-there")
    done = kafka.tail(DONE)
    async with dispatcher(kafka, store, events=silent):
        for name in ("there", "gone"):
            due(kafka, soon(1), "event-type:orders", f"{mark}-{name}")
        kafka.flush()
        await asyncio.wait_for(silent.begun.wait(), 60)
        assert await attempts_of(done, f"{mark}-gone", 2) == 2
    async with dispatcher(kafka, store, events=next_ones):
        for _ in range(600):
            if f"{mark}-gone" in next_ones.sent:
                break
            await asyncio.sleep(0.1)
    assert sorted(next_ones.looked) == [f"{mark}-gone", f"{mark}-there"]
    assert sorted(next_ones.sent) == [f"{mark}-gone", f"{mark}-there"]
    assert silent.sent == []


async def attempts_of(done, token: str, count: int, within: float = 60.0) -> int:
    """How often it was told that a timer is about to be published."""
    found, deadline = 0, time.monotonic() + within
    while found < count and time.monotonic() < deadline:
        outcomes = [read_outcomes(message.value()) for message in await read(done, 1, within=1.0)]
        found += sum(
            told is not None and told.state is TimerState.ATTEMPTED and any(token in tokens for _, tokens in told.timers)
            for told in outcomes
        )
    return found


async def test_events_of_a_share_that_has_gone_elsewhere_are_published_by_its_new_dispatcher_alone(kafka, store, mark):
    """The old one waits for a storage meanwhile, which comes back when the share has gone."""
    back, names = asyncio.Event(), [f"{mark}-{number}" for number in range(20)]
    old, new = Events(None, may_go_on=back), Events(None)
    async with dispatcher(kafka, store, "one", events=old) as one:
        for name in names:
            due(kafka, soon(1), "event-type:orders", name)
        kafka.flush()
        await asyncio.wait_for(old.begun.wait(), 60)
        async with dispatcher(kafka, store, "two", events=new) as two:
            for _ in range(300):
                if len(one._dispatcher.report.shares) == len(two._dispatcher.report.shares) == 1:
                    break
                await asyncio.sleep(0.1)
            back.set()
            for _ in range(600):
                if {*names} <= {*old.sent, *new.sent}:
                    break
                await asyncio.sleep(0.1)
            await asyncio.sleep(1.0)
    # What tests before this one have left behind may come, too.
    by_old, by_new = ([token for token in by.sent if token.startswith(mark)] for by in (old, new))
    assert Counter(by_old + by_new) == Counter(names)
    assert by_old
    assert by_new
