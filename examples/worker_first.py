"""The smallest worker: prints every order, each once, in order per partition.

meantime event-types create orders --partitions 4
meantime worker run examples.worker_first:app
meantime publish orders -e '{"id": 1, "total": 30}'
"""

from meantime import App
from meantime.workers.app import Message

app = App("first")


@app.job("orders")
def greet(message: Message, context: None) -> None:
    print(f"order {message.event['id']} at {message.cursor} of partition {message.partition}", flush=True)
