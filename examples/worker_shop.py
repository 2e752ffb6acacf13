"""A small shop: two event types, a database that the jobs share, retries, dead letters and strict order.

    meantime event-types create orders --partitions 4
    meantime event-types create stock
    meantime worker run examples.worker_shop:app

Start it in several terminals and watch `meantime apps show shop --watch` while you stop and start them.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from meantime import App, Retry, StopWorker
from meantime.workers.app import Message


@dataclass
class Shop:
    database: sqlite3.Connection
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def opened() -> Iterator[Shop]:
    """Entered once per process, before the first job; what it yields is every job's `context`."""
    with closing(sqlite3.connect("shop.db", check_same_thread=False, timeout=30)) as database:
        database.execute("create table if not exists shipped (cursor text, partition text, primary key (partition, cursor))")
        database.execute("create table if not exists stock (item text primary key, pieces integer)")
        database.commit()
        yield Shop(database)


app = App("shop", context=opened)


@app.job("orders", retry=Retry(attempts=4, delay=0.2), time_limit=10)
def ship(message: Message, shop: Shop) -> None:
    """A message may come again after a crash: its cursor is a natural key, so shipping twice is impossible."""
    if message.event.get("address") is None:
        raise ValueError("no address")  # tried four times in all, then it is a dead letter in the topic `shop.dead`
    with shop.lock, shop.database as database:
        database.execute("insert or ignore into shipped values (?, ?)", (message.cursor, message.partition))


@app.job("stock", on_error="block", retry=Retry(delay=0.5, most=30))
def count(message: Message, shop: Shop) -> None:
    """Counts must be applied in order, so a failure keeps the queue waiting instead of coming back later."""
    if message.event["item"] == "end of season":
        raise StopWorker("the shop is closed")  # the worker ends; this message is not recorded
    with shop.lock, shop.database as database:
        database.execute(
            "insert into stock values (?, ?) on conflict (item) do update set pieces = pieces + excluded.pieces",
            (message.event["item"], message.event["pieces"]),
        )
