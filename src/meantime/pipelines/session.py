"""A SparkSession with every jar and source in place, small enough to run beside everything else on one machine."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import StackError
from meantime.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from meantime.stack.java.runtime import Java

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

DEFAULTS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # One RocksDB for a join instead of four: fewer files to commit in each micro-batch.
    "spark.sql.streaming.join.stateFormatVersion": "3",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Changes are written with each micro-batch; a whole snapshot is needed only so that a restart has less to replay.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "60",
}

METASPACE = "-XX:MetaspaceSize=192m"
"""Room for Spark's classes. With a smaller initial metaspace Java makes two full garbage collections at the start."""

LOCAL = "local[2]"
CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def session(
    name: str,
    *,
    master: str | None = None,
    memory: str = "1g",
    jvm: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    uses: Sequence[str] = (),
    bundle: str | None = None,
) -> "SparkSession":
    """A session called `name`. Without `master` it is spark-submit's, `SPARK_MASTER`'s, or this machine with two threads;
    `jvm` are options for the Java of the driver. `uses` are addresses that it will read and write: those of an object store
    need more jars. `bundle` is what executors get the package from (`MEANTIME_BUNDLE`)."""
    # Every task imports this module, as part of its package, and has no use for what makes a session.
    require("spark", "meantime.pipelines", "pyspark")
    from pyspark.sql import SparkSession

    from meantime.pipelines.registering import register
    from meantime.pipelines.spark.executors import executor_settings
    from meantime.pipelines.spark.object_store import is_object_address, store_settings
    from meantime.stack.java.archive import class_path, spark_archive
    from meantime.stack.java.jars import ensure_jars
    from meantime.stack.java.runtime import find_java

    chosen = master or os.environ.get("SPARK_MASTER")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    bundle = bundle or os.environ.get("MEANTIME_BUNDLE")
    given = {**DEFAULTS, **executor_settings(chosen or LOCAL, bundle), **(settings or {})}
    sets = ["spark"]
    if any(map(is_object_address, uses)):
        sets.append("s3")
        given |= store_settings().for_spark()
    java = find_java()
    _prepare(java, chosen or LOCAL, bundle)
    jars = [jar for one in sets for jar in sorted(ensure_jars(one, java, lambda _: None).glob("*.jar"))]
    builder = SparkSession.builder.appName(name).config("spark.jars", ",".join(map(str, jars)))
    builder = builder.config("spark.driver.extraClassPath", class_path(*sets))
    builder = builder.config("spark.driver.memory", memory)
    jvm_options = [METASPACE, *jvm, *spark_archive(java).options()]
    builder = builder.config("spark.driver.extraJavaOptions", " ".join(jvm_options))
    if chosen or not submitted:
        builder = builder.master(chosen or LOCAL)
    for key, value in given.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if submitted:
        check_connector(spark, jars)
    return register(spark)


def _prepare(java: "Java", master: str, bundle: str | None) -> None:
    """The environment that Spark is started in."""
    from meantime.pipelines.spark.executors import has_processes_of_its_own, prepare_environment
    from meantime.stack.java.runtime import spark_java_home
    from meantime.stack.java.spark_home import passing_home, session_home

    os.environ.setdefault("JAVA_HOME", str(spark_java_home(java)))
    if "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(passing_home() if has_processes_of_its_own(master) else session_home())
    prepare_environment(master, bundle)


def check_connector(spark: "SparkSession", jars: Sequence[Path]) -> None:
    """A driver has the classes that spark-submit has started it with, and gets no more of them."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    assert spark._jvm is not None
    try:
        spark._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass(CONNECTOR)
    except Py4JJavaError:
        named = ",".join(map(str, jars))
        raise StackError(f"this Spark has no connector to Kafka: start it with `spark-submit --jars {named} …`") from None
