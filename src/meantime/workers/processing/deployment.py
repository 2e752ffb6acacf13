"""The schedules of an application's periodic jobs: made when a worker starts, from what the code says.

It can be done by every worker at every start: the same schedule again changes nothing. Whether a schedule is paused is its
operator's affair and stays as it is. Nothing is deleted: another release of the application may have the job that this one
has not; what no code here serves is named in the log.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

import structlog

from meantime.errors import Forbidden, Invalid, MeantimeError, NotFound, Unauthenticated
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.calls.schedules import put_draft
from meantime.sdk.schedule_model import Schedule
from meantime.workers.app import App
from meantime.workers.periodic import TEMPLATE, Periodic, periodic_topic, source_of
from meantime.workers.processing.failures import FailedMessages

log = structlog.get_logger(__name__)

AGAIN_AFTER = 2.0
PAGE = 1000


class Deployment:
    def __init__(self, client: AsyncClient, app: App, failures: FailedMessages) -> None:
        self._client = client
        self._app = app
        self._failures = failures
        self._topic = periodic_topic(app.name)

    async def run(self) -> None:
        """Returns when all schedules are what the code says. What is not allowed or not valid is raised; all else passes."""
        if not self._app.periodic_jobs:
            with suppress(MeantimeError):
                await self._name_the_unserved()
            return
        while True:
            try:
                await self._deploy()
                return
            except (Invalid, Forbidden, Unauthenticated):
                raise
            except MeantimeError as error:
                log.warning("schedules_not_made", app=self._app.name, detail=error.detail)
            await asyncio.sleep(AGAIN_AFTER)

    async def _deploy(self) -> None:
        await self._failures.ensure(self._topic)
        for job in self._app.periodic_jobs.values():
            if job.periodic:
                await self._put(job.periodic)
        await self._name_the_unserved()

    async def _put(self, periodic: Periodic) -> None:
        """Raises Conflict when somebody else has changed it in between."""
        present = await self._find(periodic.schedule)
        draft = replace(periodic.draft, target={"topic": self._topic, "group": self._app.name}, body=TEMPLATE)
        if present is not None:
            draft = replace(draft, paused=present.paused, note=present.note)
        made = await self._client.send(put_draft(periodic.schedule, draft, present.version if present else None))
        if present is None or made.version != present.version:
            log.info("schedule_made" if present is None else "schedule_changed", schedule=made.id, version=made.version)
        elif present.paused:
            log.warning("schedule_paused", schedule=made.id, note=present.note)

    async def _find(self, schedule: str) -> Schedule | None:
        try:
            return await self._client.schedules.get(schedule)
        except NotFound:
            return None

    async def _name_the_unserved(self) -> None:
        after = None
        while page := await self._client.schedules.list(prefix=f"{self._app.name}.", after=after, limit=PAGE):
            for schedule in page:
                if schedule.target.topic == self._topic and self._app.job_for(source_of(schedule.id)) is None:
                    hint = f"if no other release has its job: meantime schedules delete {schedule.id}"
                    log.warning("schedule_without_job", schedule=schedule.id, hint=hint)
            after = page[-1].id
