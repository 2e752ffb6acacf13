"""The wake-up under watches and waiters."""

import asyncio

from meantime.pulse import Pulse


async def test_a_beat_between_looking_and_waiting_is_not_missed() -> None:
    pulse = Pulse()
    seen = pulse.count
    pulse.beat()
    assert await pulse.beyond(seen, timeout=0.001)


async def test_many_beats_wake_every_waiter_once() -> None:
    pulse = Pulse()
    waiting = [asyncio.create_task(pulse.beyond(0)) for _ in range(3)]
    await asyncio.sleep(0)
    pulse.beat()
    pulse.beat()
    assert await asyncio.gather(*waiting) == [True, True, True]
    assert not await pulse.beyond(pulse.count, timeout=0.001)
