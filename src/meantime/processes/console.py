"""What the console shows live: the state of a node's parts, and the stream of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from meantime.console.activity import ActivityExchange
from meantime.console.feed import ConsoleFeed, open_feed
from meantime.console.live_state import ConsoleParts, LiveState, overloads_of, totals_of
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.supervision import kept_running


@asynccontextmanager
async def open_console_feed(parts: ConsoleParts, database: Database, listener: Listener) -> AsyncIterator[ConsoleFeed]:
    totals, overloads = partial(totals_of, parts.topics), partial(overloads_of, parts.topics)
    exchange = ActivityExchange(parts.node_id, database, listener, totals, overloads)
    state = LiveState(parts, exchange)
    async with kept_running(exchange.run, "console activity"), open_feed(state.collect) as feed:
        yield feed
    await state.end()
