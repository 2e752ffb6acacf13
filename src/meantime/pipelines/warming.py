"""A trial run of Spark, in which it loads what our pipelines need: `python -m meantime.pipelines.warming FOLDER`."""

import sys
from pathlib import Path

from meantime.pipelines.session import session


def warm_up(folder: str) -> None:
    """A batch, and two streams that are joined, as in the Spark job of timers. Leaves the class path in the folder."""
    spark = session("trial")
    spark.range(100).selectExpr("id % 7 AS key").groupBy("key").count().collect()
    ticks = spark.readStream.format("rate").load().withWatermark("timestamp", "10 seconds")
    one, two = ticks.selectExpr("value AS a", "timestamp"), ticks.selectExpr("value AS b")
    query = (
        one.join(two, one["a"] == two["b"])
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


if __name__ == "__main__":
    warm_up(sys.argv[1])
