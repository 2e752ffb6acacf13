"""Streams at their end over real services: they follow one consumer of their node, and nobody loses, doubles or waits."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import httpx
import streams_world
from streams_world import Orders, Reader, Served, World, begin, open_reader, reading

from meantime.streams.reading.consumer_slots import CONSUMERS
from meantime.streams.reading.tail import FELL_BEHIND

FILLER = b"x" * 50_000
world, node, client = streams_world.world, streams_world.node, streams_world.client


async def until_no_consumer_is_open() -> None:
    async with asyncio.timeout(60):
        while CONSUMERS._value.get():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def numbers_by_partition(reader: Reader, *, until: list[int]) -> dict[str, list[int]]:
    """What is read until both partitions have brought the number that `until` holds sooner or later."""
    seen: dict[str, list[int]] = {}
    while not until or sum(numbers[-1] == until[0] for numbers in seen.values()) < 2:
        batch = await reader.batch(120.0)
        seen.setdefault(batch["cursor"]["partition"], []).extend(event["n"] for event in batch["events"])
    return seen


class StalledReader:
    """A client whose buffers are small, and which reads only when it is told to."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, node: Served, path: str) -> "StalledReader":
        address = urlsplit(node.url)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (address.hostname, address.port))
        await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\nhost: test\r\n\r\n".encode())
        async with asyncio.timeout(60):
            head = await loop.sock_recv(connection, 12)
        assert head.endswith(b"200")
        return cls(connection)

    async def numbers(self, count: int) -> list[int]:
        reader, writer = await asyncio.open_connection(sock=self._connection, limit=1 << 20)
        seen: list[int] = []
        async with asyncio.timeout(120):
            while len(seen) < count:
                line = await reader.readline()
                assert line, "the stream ended"
                if line.startswith(b'{"cursor"'):
                    seen += [event["n"] for event in json.loads(line).get("events", ())]
        writer.close()
        return seen


async def write(orders: Orders, first: int, count: int, filler: bytes = b"") -> None:
    for partition in range(orders.partitions):
        values = [b'{"n":%d,"filler":"%b"}' % (number, filler) for number in range(first, first + count)]
        await orders.write_raw(values, partition)


async def burst_until_a_reader_falls_behind(orders: Orders, first: int) -> int:
    """Large events; the number after the last. How much it takes depends on the buffers between a node and its client."""
    fell_behind = FELL_BEHIND._value.get()
    for number in range(first, first + 600, 40):
        if FELL_BEHIND._value.get() > fell_behind:
            return number
        await write(orders, number, 40, FILLER)
        await asyncio.sleep(0.2)
    raise AssertionError("a reader that reads nothing has kept up")


async def test_all_streams_at_their_end_get_everything_once_through_bursts_and_a_switch(
    world: World, node: Served, client: httpx.AsyncClient
) -> None:
    orders, last = await world.event_type(partitions=2), list[int]()
    await write(orders, 0, 50)
    async with AsyncExitStack() as opened:

        async def open_some(number: int, cursors: list[dict[str, str]] | None, **params: object) -> list[Reader]:
            return [
                await opened.enter_async_context(
                    reading(client, orders.events(), cursors, batch_limit=20, batch_flush_timeout=1, **params)
                )
                for _ in range(number)
            ]

        at_end, from_begin = await open_some(6, None), await open_some(2, begin(2))
        timed = await open_some(1, None, written_at="true")
        stalled = await StalledReader.open(node, orders.events())
        for reader in from_begin:
            assert await numbers_by_partition(reader, until=[49]) == {"0": list(range(50)), "1": list(range(50))}
        await until_no_consumer_is_open()
        readers = [*at_end, *from_begin, *timed]
        following = [asyncio.create_task(numbers_by_partition(reader, until=last)) for reader in readers]
        await write(orders, 50, 100)
        end = await burst_until_a_reader_falls_behind(orders, 150)
        await orders.switch("two")
        await write(orders, end, 50)
        later = [asyncio.create_task(numbers_by_partition(reader, until=last)) for reader in await open_some(2, None)]
        await write(orders, end + 50, 50)
        await orders.switch("one")
        last.append(end + 149)
        await write(orders, end + 100, 50)
        for seen in await asyncio.gather(*following):
            assert seen == {"0": list(range(50, end + 150)), "1": list(range(50, end + 150))}
        for seen in await asyncio.gather(*later):
            assert seen == {"0": list(range(end + 50, end + 150)), "1": list(range(end + 50, end + 150))}
        behind = await stalled.numbers(2 * (end + 100))
        await until_no_consumer_is_open()
    assert sorted(behind) == sorted(2 * list(range(50, end + 150)))


async def test_streams_that_are_behind_take_turns_when_there_are_more_of_them_than_consumers(world: World) -> None:
    orders = await world.event_type()
    await write(orders, 0, 400, FILLER)
    async with open_reader(world, max_consumers=2) as small, small.client() as client, AsyncExitStack() as opened:
        for _ in range(2):
            await opened.enter_async_context(reading(client, orders.events(), begin()))
        quick = [
            await opened.enter_async_context(reading(client, orders.events(), begin(), stream_limit=400)) for _ in range(3)
        ]
        async with asyncio.timeout(120):
            for seen in await asyncio.gather(*(reader.numbers(400) for reader in quick)):
                assert seen == list(range(400))


async def test_a_stream_of_an_adopted_topic_shows_text_at_its_end_too(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(adopt=True)
    async with reading(client, orders.events()) as reader, reading(client, orders.events(), written_at="true") as timed:
        await until_no_consumer_is_open()
        await orders.write_raw([b"no json", b'{"n":1}'])
        for one in (reader, timed):
            assert [(await one.batch())["events"] for _ in range(2)] == [["no json"], [{"n": 1}]]
        await orders.switch("two")
        await orders.write(2)
        assert (await reader.batch())["cursor"] == {"partition": "0", "offset": f"001-0002-{0:018d}"}
