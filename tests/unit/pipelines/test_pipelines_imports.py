"""What the two threads of a time buffer import, and when."""

import subprocess
import sys

LOADED = """
import sys
import meantime.pipelines.buffer.buffer
print(*sorted({"confluent_kafka", "httpx", "psycopg", "pyspark"} & set(sys.modules)))
"""


def test_the_outbound_half_of_a_buffer_is_loaded_before_threads_start_and_needs_no_spark() -> None:
    loaded = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True, timeout=120)
    assert loaded.stdout.split() == ["confluent_kafka", "httpx", "psycopg"]
