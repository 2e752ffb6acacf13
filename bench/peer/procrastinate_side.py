"""Periodic jobs with procrastinate: `procrastinate_side.py URI COUNT EVERY FILE [schema]`, a worker; any number of them.

Each firing is a line of FILE: number of the schedule, its instant, when it ran. `schema`: only make the tables.
"""

import asyncio
import os
import sys
import time

import procrastinate


async def main(uri: str, count: int, every: int, file: str, *schema: str) -> None:
    records = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=uri))

    async def work(timestamp: int, number: int) -> None:
        os.write(records, f"{number} {timestamp} {time.time():.4f}\n".encode())

    task = app.task(work, name="work")
    for number in range(count):
        # Its sixth field is that of seconds.
        app.periodic(cron=f"* * * * * */{every}", periodic_id=str(number), task_kwargs={"number": number})(task)
    async with app.open_async():
        if schema:
            await app.schema_manager.apply_schema_async()
        else:
            await app.run_worker_async(concurrency=20, install_signal_handlers=False)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
