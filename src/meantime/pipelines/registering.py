"""Registers the data sources with a SparkSession.

What the environment says where `register` is called becomes the default of every option, so that it does not matter
which environment Spark's own processes were started with.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from meantime.pipelines.spark.environment import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession", defaults: Mapping[str, str] | None = None) -> "SparkSession":
    """Add `meantime.events` and `meantime.topic` to a session; `defaults` are options that every use of them has."""
    from meantime.pipelines.event_types.source import EventsSource
    from meantime.pipelines.topics.source import TopicSource

    parallelism = {"parallelism": str(spark.sparkContext.defaultParallelism)}
    found = environment() | parallelism | dict(defaults or {})
    for source in (EventsSource, TopicSource):
        spark.dataSource.register(_with_defaults(source, found))
    return spark


def _with_defaults(source: type[Any], found: Mapping[str, str]) -> type[Any]:
    # A class made here is sent to Spark's processes as a whole, defaults included.
    return type(source.__name__, (source,), {"defaults": dict(found), "__module__": "meantime.pipelines.registered"})
