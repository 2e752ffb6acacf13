"""The sources made known to a SparkSession.

What the environment says where `register` is called becomes the default of every option, so that it does not matter
which environment Spark's own processes were started with.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from meantime.errors import MeantimeError
from meantime.stack.discovery import Addresses, discover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession", defaults: Mapping[str, str] | None = None) -> "SparkSession":
    """Add `meantime.events` and `meantime.topic` to a session; `defaults` are options that every use of them has."""
    from meantime.pipelines.events.event_source import EventsSource
    from meantime.pipelines.topics.topic_source import TopicSource

    parallelism = {"parallelism": str(spark.sparkContext.defaultParallelism)}
    found = environment() | parallelism | dict(defaults or {})
    for source in (EventsSource, TopicSource):
        spark.dataSource.register(_with_defaults(source, found))
    return spark


def environment() -> dict[str, str]:
    """What can be found of the cluster from here."""
    addresses = discover()
    places = {"url": _found(addresses, "url"), "postgres": _found(addresses, "postgres"), "key": addresses.key}
    group = os.environ.get("MEANTIME_PRODUCER_GROUP")
    return {name: value for name, value in (places | {"producer_group": group}).items() if value}


def _found(addresses: Addresses, name: str) -> str | None:
    try:
        return str(getattr(addresses, name))
    except MeantimeError:
        return None


def _with_defaults(source: type[Any], found: Mapping[str, str]) -> type[Any]:
    # A class made here is sent to Spark's processes as a whole, defaults included.
    return type(source.__name__, (source,), {"defaults": dict(found), "__module__": "meantime.pipelines.registered"})
