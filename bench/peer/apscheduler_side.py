"""Periodic jobs with APScheduler 3 and its PostgreSQL store: `apscheduler_side.py URI COUNT EVERY FILE [patient]`.

Each firing is a line of FILE: number of the schedule, its instant, when it ran. Jobs that are in the store already are left
as they are, so that a restarted scheduler knows what it has missed. `patient`: however late, and each missed one by itself.
"""

import os
import sys
import threading
import time

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

PATIENT = {"misfire_grace_time": None, "coalesce": False, "max_instances": 100}


def work() -> None:
    """Nothing is to be done: when it was done is what counts."""


def main(uri: str, count: int, every: int, file: str, *patient: str) -> None:
    records = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(event: object) -> None:
        instant = event.scheduled_run_time.timestamp()  # type: ignore[attr-defined]
        os.write(records, f"{event.job_id} {instant:.0f} {time.time():.4f}\n".encode())  # type: ignore[attr-defined]

    store = SQLAlchemyJobStore(url=uri.replace("postgresql://", "postgresql+psycopg://"))
    scheduler = BackgroundScheduler(jobstores={"default": store}, job_defaults=PATIENT if patient else {}, timezone="UTC")
    scheduler.add_listener(note, EVENT_JOB_EXECUTED)
    scheduler.start(paused=True)
    for number in range(count):
        if scheduler.get_job(str(number)) is None:
            scheduler.add_job(work, CronTrigger(second=f"*/{every}", timezone="UTC"), id=str(number))
    scheduler.resume()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
