"""Cluster time that is far from every service's clock cannot be right."""

import pytest

from meantime.cluster.clock import steady_us
from meantime.cluster.service_clocks import ServiceClocks
from meantime.errors import StorageUnavailable


def clock(ahead_s: float):
    async def read() -> int:
        return steady_us() + round(ahead_s * 1_000_000)

    return read


async def silent() -> int:
    raise StorageUnavailable("it is away")


@pytest.mark.parametrize(
    ("ahead_s", "wrong"),
    [
        ({"PostgreSQL": 0, "ZooKeeper": 0}, False),
        ({"PostgreSQL": 3, "ZooKeeper": -4}, False),
        ({"PostgreSQL": -600, "ZooKeeper": 0}, False),
        ({"PostgreSQL": -600, "ZooKeeper": -600}, True),
        ({"PostgreSQL": 3600}, True),
    ],
)
async def test_it_is_wrong_when_it_is_far_from_all_that_answer(ahead_s, wrong) -> None:
    clocks = ServiceClocks({name: clock(seconds) for name, seconds in ahead_s.items()} | {"Kafka": silent})
    assert not clocks.known
    await clocks.run_once()
    assert clocks.known
    assert (clocks.contradiction(0.0) is not None) is wrong


async def test_nothing_is_said_against_it_while_none_answers() -> None:
    clocks = ServiceClocks({"PostgreSQL": silent})
    await clocks.run_once()
    assert (clocks.known, clocks.contradiction(1e12)) == (False, None)


async def test_the_reason_names_the_services_and_the_distance() -> None:
    clocks = ServiceClocks({"PostgreSQL": clock(-600), "ZooKeeper": clock(-601)})
    await clocks.run_once()
    reason = clocks.contradiction(0.0) or ""
    assert "ahead of the clock of PostgreSQL and ZooKeeper" in reason
    assert 599_900 < int(reason.split()[3]) <= 600_000
