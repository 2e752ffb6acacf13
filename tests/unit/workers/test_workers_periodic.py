"""Periodic jobs as the code of an application declares them, and their firings as messages."""

from datetime import UTC, datetime

import msgspec
import pytest

from meantime.errors import Invalid
from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.sdk.messages import LeasedMessage
from meantime.workers.app import App, Retry
from meantime.workers.letters import DeadBody, RetryBody, sent_back
from meantime.workers.processing.failures import FailedMessages
from meantime.workers.processing.periodic_topic import PeriodicTopic


def report(message, context):
    """A job."""


def firing(**more):
    document = {"id": "s:shop.report@5000", "version": 2, "at_ms": 90_000, "body": {"firing": "7"}}
    return msgspec.convert(document | more, LeasedMessage)


def read(leased):
    app = App("shop")
    return PeriodicTopic(app, FailedMessages(None, app.name)).read(AsyncLease(None, "shop.periodic", "w", leased))


def test_a_periodic_job_has_the_schedule_of_application_and_function():
    app = App("shop")
    assert app.periodic("0 9 * * 1-5", zone="Europe/Berlin", retry=Retry(3), overlap="skip")(report) is report
    (job,) = app.periodic_jobs.values()
    assert job.periodic.schedule == "shop.report"
    assert job.periodic.draft.document() == {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin", "overlap": "skip"}
    assert (job.retry.attempts, app.job_for("schedule:shop.report"), app.jobs) == (3, job, {})


def test_it_may_have_a_name_of_its_own_and_two_of_one_name_are_refused():
    app = App("shop")
    app.periodic(every="10m", name="tidy")(lambda message, context: None)
    assert list(app.periodic_jobs) == ["schedule:shop.tidy"]
    with pytest.raises(Invalid, match="another name"):
        app.periodic(every="1h", name="tidy")(report)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"cron": "* * * * *", "every": "1m"},
        {"every": "soon"},
        {"every": "1m", "time_limit": 0},
        {"every": "1m", "retry": 3},
        {"every": "1m", "name": "with spaces"},
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(wrong):
    with pytest.raises(Invalid):
        App("shop").periodic(**wrong)(report)


def test_a_function_without_a_name_needs_one():
    with pytest.raises(Invalid, match="name="):
        App("shop").periodic(every="1m")(lambda message, context: None)


def test_a_job_is_given_its_instant_and_which_firing_it_is():
    message, history = read(firing(schedule={"id": "shop.report", "version": 3, "at_ms": 5000}))
    app = App("shop")
    app.periodic(every="1m")(report)
    given = app.job_for(message.event_type).argument([message])
    assert (given.schedule, given.version, given.firing, given.attempt) == ("shop.report", 3, 7, 1)
    assert (given.instant, history) == (datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), [])


def test_a_message_that_no_schedule_has_made_is_not_given_to_a_job():
    with pytest.raises(msgspec.ValidationError):
        read(firing())


def test_a_dead_firing_can_be_sent_back_to_its_job():
    message, _ = read(firing(schedule={"id": "shop.report", "version": 3, "at_ms": 5000}))
    letter = DeadBody(
        event=message.event,
        event_type=message.event_type,
        partition=message.partition,
        cursor=message.cursor,
        error="ValueError: no",
        traceback="",
        attempts=1,
    )
    _, body = sent_back(msgspec.json.encode(letter))
    again = msgspec.json.decode(body, type=RetryBody).message
    app = App("shop")
    app.periodic(every="1m")(report)
    given = app.job_for(again.event_type).argument([again])
    assert (given.instant_ms, given.firing, given.attempt) == (5000, 7, 1)
