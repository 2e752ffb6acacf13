"""A trial run of Spark, in which it loads what our pipelines need: `python -m meantime.pipelines.warming FOLDER`."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from meantime.pipelines.session import session
from meantime.stack.java.jars import jars_folder

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

NOBODY = "127.0.0.1:9"


def warm_up(folder: str) -> None:
    """A batch, and two streams that are joined, as in the Spark job of timers. Leaves the class path in the folder."""
    spark = session("trial")
    spark.range(100).selectExpr("id % 7 AS key").groupBy("key").count().collect()
    _load_connector(spark)
    ticks = spark.readStream.format("rate").load().withWatermark("timestamp", "10 seconds")
    one, two = ticks.selectExpr("value AS a", "timestamp"), ticks.selectExpr("value AS b")
    query = (
        one.join(two, one["a"] == two["b"])
        .select("a")
        .mapInArrow(_as_they_are, "a bigint")
        .writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime="1 second")
        .start()
    )
    query.awaitTermination(10)
    query.stop()
    assert spark._jvm is not None
    Path(folder, "path").write_text(spark._jvm.java.lang.System.getProperty("java.class.path"))
    spark.stop()


def _as_they_are(batches: Iterable["RecordBatch"]) -> Iterator["RecordBatch"]:
    yield from batches


def _load_connector(spark: "SparkSession") -> None:
    """All of it by name, for there is no Kafka to be read here; and a producer that has nothing to send."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm = spark._jvm
    assert jvm is not None
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for jar in sorted(jars_folder("spark").glob("*.jar")):
        for name in (name for name in ZipFile(jar).namelist() if name.endswith(".class")):
            # Some are for libraries that Spark does not have.
            with suppress(Py4JJavaError):
                jvm.java.lang.Class.forName(name.removesuffix(".class").replace("/", "."), False, loader)
    nothing = spark.range(0).selectExpr("CAST(id AS STRING) AS value", "'trial' AS topic")
    nothing.write.format("kafka").option("kafka.bootstrap.servers", NOBODY).save()


if __name__ == "__main__":
    warm_up(sys.argv[1])
