"""Consumers of streams that are behind: so many at a time, in turns."""

import asyncio

from meantime.streams.reading.consumer_slots import ConsumerSlots


async def test_slots_are_given_in_the_order_of_asking() -> None:
    slots, order = ConsumerSlots(2), []
    leave = [asyncio.Event() for _ in range(4)]

    async def use(number: int) -> None:
        async with slots.slot(lambda: None):
            order.append(number)
            await leave[number].wait()

    tasks = [asyncio.create_task(use(number)) for number in range(4)]
    await asyncio.sleep(0)
    assert order == [0, 1]
    leave[1].set()
    await asyncio.wait([tasks[1]])
    await asyncio.sleep(0)
    assert order == [0, 1, 2]
    for one in leave:
        one.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]


async def test_whoever_stops_waiting_takes_no_slot() -> None:
    slots = ConsumerSlots(1)
    async with slots.slot(lambda: None):
        given_up = asyncio.create_task(slots.slot(lambda: None).__aenter__())
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
    async with asyncio.timeout(10), slots.slot(lambda: None):
        pass


async def test_a_turn_ends_when_others_wait_and_only_then() -> None:
    slots, recalled, taken = ConsumerSlots(1, turn_for=0.01), asyncio.Event(), asyncio.Event()

    async def wait_for_a_turn() -> None:
        async with slots.slot(lambda: None):
            taken.set()

    async with asyncio.timeout(30):
        async with slots.slot(recalled.set):
            await asyncio.sleep(0.05)
            assert not recalled.is_set()
            waiting = asyncio.create_task(wait_for_a_turn())
            await recalled.wait()
            assert not taken.is_set()
        await waiting
