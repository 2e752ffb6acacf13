"""What a process of timers tells whoever supervises it."""

import asyncio
import socket

import pytest

from meantime.errors import Invalid
from meantime.processes.health_port import open_health_port


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


async def asked(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_process_is_alive_at_once_and_ready_when_it_has_found_its_services() -> None:
    port = free_port()
    async with open_health_port(port) as health:
        assert (await asked(port, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (await asked(port, b"GET /ready HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
        health.ready = True
        answer = await asked(port, b"GET /ready?x=1 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b'\r\n\r\n{"status":"ready"}\n')


async def test_what_is_not_asked_properly_is_refused_and_the_next_one_is_served() -> None:
    port = free_port()
    async with open_health_port(port):
        assert (await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        assert (await asked(port, b"\xff\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        assert await asked(port, b"x" * 100_000) == b""
        assert (await asked(port, b"GET /health HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("0.0.0.0", 0)) as other, pytest.raises(Invalid, match="--health-port: cannot listen on port"):
        async with open_health_port(other.getsockname()[1]):
            pass


async def test_without_a_port_nobody_is_told() -> None:
    async with open_health_port(None) as health:
        assert health.ready is False
