"""The stream of the console: one state for all viewers, and nobody who is slow has more than a few changes waiting."""

import asyncio
import json
from typing import Any

import pytest

from meantime.console import feed as feeds
from meantime.console.feed import MOST_WAITING, ConsoleFeed
from meantime.console.merge_patch import patched
from meantime.errors import Unavailable


class States:
    """Counts how often a state was made."""

    def __init__(self) -> None:
        self.made = 0

    async def collect(self) -> dict[str, Any]:
        self.made += 1
        return {"now_ms": self.made, "nodes": {f"n{self.made % 3}": {"state": "healthy"}}}


def parsed(chunk: bytes) -> tuple[str, dict[str, Any]]:
    fields = dict(line.split(": ", 1) for line in chunk.decode().strip().splitlines())
    return fields["event"], json.loads(fields["data"])


@pytest.fixture
def states() -> States:
    return States()


@pytest.fixture
def feed(states: States) -> ConsoleFeed:
    """One whose turns are made by the test."""
    return ConsoleFeed(states.collect, every=3600)


async def opened(feed: ConsoleFeed) -> Any:
    viewer = feed.join()
    chunks = viewer.chunks()
    assert (await anext(chunks)).startswith(b"retry: ")
    return viewer, chunks


async def test_a_viewer_gets_the_whole_state_and_then_what_has_changed(feed: ConsoleFeed) -> None:
    viewer, chunks = await opened(feed)
    await feed.run_once()
    kind, state = parsed(await anext(chunks))
    assert kind == "snapshot"
    for _ in range(5):
        await feed.run_once()
        kind, change = parsed(await anext(chunks))
        assert kind == "delta"
        state = patched(state, change)
    _, late = await opened(feed)
    assert parsed(await anext(late)) == ("snapshot", state)
    viewer.close()


async def test_a_slow_viewer_has_few_changes_waiting_and_gets_the_whole_state_again(feed: ConsoleFeed) -> None:
    viewer, chunks = await opened(feed)
    await feed.run_once()
    await anext(chunks)
    for _ in range(MOST_WAITING + 3):
        await feed.run_once()
    kind, state = parsed(await anext(chunks))
    assert (kind, state["now_ms"]) == ("snapshot", MOST_WAITING + 4)
    await feed.run_once()
    assert parsed(await anext(chunks))[0] == "delta"
    viewer.close()


async def test_a_state_is_made_once_for_all_viewers_and_only_while_there_are_any(states: States) -> None:
    feed = ConsoleFeed(states.collect, every=3600)
    await asyncio.sleep(0)
    assert states.made == 0
    viewers = [await opened(feed) for _ in range(3)]
    assert [parsed(await anext(chunks))[1]["now_ms"] for _, chunks in viewers] == [1, 1, 1]
    for viewer, _ in viewers:
        viewer.close()
    assert (feed.viewers, states.made, feed.snapshot()) == (0, 1, None)


async def test_there_are_not_more_viewers_than_a_node_can_serve(feed: ConsoleFeed, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "MOST_VIEWERS", 1)
    viewer = feed.join()
    with pytest.raises(Unavailable):
        feed.join()
    viewer.close()
    feed.join().close()


async def test_a_viewer_that_reads_nothing_is_let_go(feed: ConsoleFeed, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "PATIENCE", 0)
    viewer = feed.join()
    await viewer.cut()
    viewer.close()
