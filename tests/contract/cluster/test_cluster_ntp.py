"""A clock that follows NTP servers, on real sockets."""

import asyncio
import time
from contextlib import AsyncExitStack

import httpx
import pytest
from ntp_server import LocalNtpServer, ntp_server

from meantime.clock import SystemClock
from meantime.cluster.clock import estimate_cluster_time, steady_us
from meantime.cluster.ntp import NtpClock, open_local_clock, servers_of
from meantime.errors import Invalid

HOUR_MS = 3_600_000


def source(*servers: LocalNtpServer) -> str:
    return "ntp:" + ",".join(f"127.0.0.1:{server.port}" for server in servers)


def ahead_ms(clock: NtpClock | SystemClock) -> float:
    """Of this machine's true clock."""
    return clock.now_us() / 1000 - time.time() * 1000


async def test_the_clock_is_that_of_the_servers_whatever_the_system_believes() -> None:
    async with (
        ntp_server(ahead_s=10.0, dispersion_s=0.02) as first,
        ntp_server(ahead_s=10.0) as second,
        ntp_server(ahead_s=3600.0) as wrong,
        open_local_clock(source(first, second, wrong), SystemClock(skew_ms=-HOUR_MS)) as clock,
    ):
        assert ahead_ms(clock) == pytest.approx(10_000, abs=clock.error_us / 1000 + 1)
        estimate = estimate_cluster_time(clock.now_us() - steady_us(), (), clock.error_us)
        assert estimate.error_ms >= 1
        assert (steady_us() + estimate.cluster_us) / 1e6 == pytest.approx(time.time() + 10, abs=1)


async def test_what_the_server_says_of_its_error_counts() -> None:
    async with ntp_server(dispersion_s=0.5) as server, open_local_clock(source(server), SystemClock()) as clock:
        assert clock.error_us >= 500_000
        assert estimate_cluster_time(0.0, (), clock.error_us).error_ms >= 500


async def test_until_a_server_answers_the_systems_clock_is_right() -> None:
    async with ntp_server(ahead_s=100.0) as server, ntp_server(ahead_s=5.0, stratum=16) as lost:
        server.silent = True
        clock = NtpClock(servers_of(source(server, lost)), SystemClock(skew_ms=7000))
        await clock.run_once()
        assert ahead_ms(clock) == pytest.approx(7000, abs=500)
        server.silent = False
        await clock.run_once()
        assert ahead_ms(clock) == pytest.approx(100_000, abs=500)
        server.silent = True
        await clock.run_once()
        assert ahead_ms(clock) == pytest.approx(100_000, abs=500)
        assert lost.asked == 3


@pytest.mark.parametrize("wrong", ["ntp:http://x", "ntp:host:port", "ntp::123", "ntp:a/b"])
def test_what_is_no_server_is_refused(wrong: str) -> None:
    with pytest.raises(Invalid, match="clock_source"):
        servers_of(wrong)


def test_servers_are_named_by_host_and_port() -> None:
    assert [str(one) for one in servers_of("ntp:time.example,10.0.0.1:1123,[::1]:99")] == [
        "time.example:123",
        "10.0.0.1:1123",
        "::1:99",
    ]
    assert servers_of("system") == []


async def test_a_node_has_its_time_from_the_servers(node_of) -> None:
    async with ntp_server(ahead_s=2.0) as server, AsyncExitStack() as opened:
        running = node_of(MEANTIME_CLOCK_SOURCE=source(server), MEANTIME_CLOCK_SKEW_MS=str(-HOUR_MS))
        places = await asyncio.to_thread(running.__enter__)  # the server answers from this loop
        opened.push_async_callback(asyncio.to_thread, running.__exit__, None, None, None)
        http = await opened.enter_async_context(httpx.AsyncClient(base_url=places.nodes[0].url, timeout=60))
        report = (await http.get("/clock")).json()
        assert report["now_ms"] == pytest.approx(time.time() * 1000 + 2000, abs=1900)
        assert 0 < report["source_error_us"] < 1e6
        assert report["error_ms"] >= report["source_error_us"] / 2000
