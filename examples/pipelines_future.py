"""A campaign from a table, a look at the future in SQL, and what happened as one frame.

meantime up --detach
python examples/pipelines_future.py
"""

# %% A session with every source in place. Where the cluster is comes from MEANTIME_URL, or the stack of MEANTIME_DATA.
from uuid import uuid4

from pyspark.sql import functions as f

from meantime import Client
from meantime.pipelines import events, session, write_topic
from meantime.stack.discovery import discover

spark = session("campaign")
client = Client(discover().url)
name = f"campaign-{uuid4().hex[:8]}"

# %% Ten thousand reminders over the next day, from a frame. The ids are natural: the same write again makes nothing new.
client.create_topic(name)
now_ms = client.clock().now_ms
reminders = spark.range(10_000).select(
    f.concat(f.lit("user-"), "id").alias("id"),
    (f.lit(now_ms) + f.col("id") * 8640 + 60_000).alias("at_ms"),
    f.to_json(f.struct(f.col("id").alias("user"), f.lit("come back").alias("text"))).alias("body"),
)
print("first time: ", write_topic(reminders, name))
print("second time:", write_topic(reminders, name))

# %% The future in SQL.
spark.read.format("meantime.topic").option("topic", name).load().createOrReplaceTempView("future")
spark.sql(
    """
    SELECT date_trunc('hour', timestamp_millis(at_ms)) AS hour, count(*) AS reminders
    FROM future WHERE status = 'waiting' GROUP BY 1 ORDER BY 1 LIMIT 5
    """
).show()

# %% What happened, over a switch of the storage: one frame.
client.create_event_type(name)
client.publish(name, [{"user": user, "opened": True} for user in range(100)])
client.switch(name, client.storages()[-1].id)
client.publish(name, [{"user": user, "opened": False} for user in range(100, 150)])
opened = events(spark, name).select("timeline", f.get_json_object("event", "$.opened").alias("opened"))
opened.groupBy("timeline", "opened").count().orderBy("timeline").show()

# %% Leave nothing behind.
client.delete_topic(name)
client.delete_event_type(name)
client.close()
spark.stop()
