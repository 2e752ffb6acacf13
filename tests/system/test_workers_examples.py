"""The examples of workers, run as a reader would run them. The pages about workers run in `test_docs.py`."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from workshop import Workshop

from conftest import RunningStack

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def shop(cluster: RunningStack, folder):
    workshop = Workshop(folder, cluster.urls, cluster.places.zookeeper)
    yield workshop
    workshop.close()


def example(shop, name):
    """The example with names of its own, as the module `jobs`."""
    text = (EXAMPLES / f"{name}.py").read_text()
    for event_type in ("orders", "stock"):
        text = text.replace(f'"{event_type}"', f'"{shop.name(event_type)}"')
    (shop.folder / "jobs.py").write_text(text.replace('App("first"', f'App("{shop.app}"').replace('"shop"', f'"{shop.app}"'))


def test_the_first_example_works(shop):
    example(shop, "worker_first")
    shop.client.create_event_type(shop.name("orders"), partitions=4)
    shop.client.publish(shop.name("orders"), [{"id": id} for id in range(8)])
    worker = shop.start()
    shop.wait_until(lambda: shop.holdings() and [queue["lag"] for queue in shop.queues()] == [0] * 4)
    assert worker.stop() == 0


def test_the_shop_ships_counts_buries_and_closes(shop):
    example(shop, "worker_shop")
    shop.client.create_event_type(shop.name("orders"), partitions=2)
    shop.client.create_event_type(shop.name("stock"))
    shop.client.publish(shop.name("orders"), [{"id": 1, "address": "here"}, {"id": 2}, {"id": 3, "address": "there"}])
    shop.client.publish(shop.name("stock"), [{"item": "pears", "pieces": 5}, {"item": "pears", "pieces": -2}])
    worker = shop.start()
    shop.wait_until(lambda: shop.holdings() and all(queue["lag"] == 0 for queue in shop.queues()))
    shop.wait_until(lambda: any(topic.name == f"{shop.app}.dead" for topic in shop.client.topics()))
    shop.wait_until(lambda: shop.client.count(f"{shop.app}.dead") == 1)
    shop.client.publish(shop.name("stock"), {"item": "end of season"})
    assert worker.process.wait(60) == 0
    with sqlite3.connect(shop.folder / "shop.db") as database:
        assert database.execute("select count(*) from shipped").fetchone() == (2,)
        assert database.execute("select item, pieces from stock").fetchall() == [("pears", 3)]
    shutil.rmtree(shop.folder / "__pycache__", ignore_errors=True)
