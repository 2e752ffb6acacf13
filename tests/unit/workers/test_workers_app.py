"""Declaring an application: what is taken, and how what is wrong is told."""

import sys
from datetime import datetime, timedelta, timezone

import pytest

from meantime import App, Retry, StopWorker
from meantime.errors import Invalid
from meantime.workers.app import Message
from meantime.workers.target import load


def handle(message, context):
    """A job."""


async def handle_async(message, context):
    """A job."""


class Callable:
    async def __call__(self, message, context):
        """A job."""


def test_a_job_is_found_by_its_event_type():
    app = App("sync")
    assert app.job("orders", retry=Retry(attempts=3))(handle) is handle
    assert app.jobs["orders"].handler is handle
    assert app.jobs["orders"].retry.attempts == 3


@pytest.mark.parametrize(("handler", "asynchronous"), [(handle, False), (handle_async, True), (Callable(), True)])
def test_sync_and_async_jobs_are_told_apart(handler, asynchronous):
    app = App("sync")
    app.job("orders")(handler)
    assert app.jobs["orders"].asynchronous is asynchronous


@pytest.mark.parametrize(
    ("start", "meant"),
    [
        (None, None),
        ("begin", "begin"),
        ("end", "end"),
        ("2026-05-01T09:00:00Z", 1_777_626_000_000),
        (datetime(2026, 5, 1, 11, tzinfo=timezone(timedelta(hours=2))), 1_777_626_000_000),
        (1_777_626_000.5, 1_777_626_000_500),
    ],
)
def test_a_job_says_where_a_new_application_begins(start, meant):
    app = App("sync")
    app.job("orders", start=start)(handle)
    assert app.jobs["orders"].start == meant


@pytest.mark.parametrize("wrong", [lambda: None, lambda message: None, lambda message, context, more: None])
def test_a_job_with_the_wrong_signature_is_named(wrong):
    with pytest.raises(Invalid, match=r"cannot be called as .*\(message, context\)"):
        App("sync").job("orders")(wrong)


def test_an_event_type_has_one_job():
    app = App("sync")
    app.job("orders")(handle)
    with pytest.raises(Invalid, match="has a job in this application already: handle"):
        app.job("orders")(handle_async)


@pytest.mark.parametrize(
    "options",
    [
        {"on_error": "ignore"},
        {"start": "now"},
        {"start": "2026-05-01T09:00:00"},
        {"start": True},
        {"start": 1_700_000_000_000},
        {"time_limit": 0},
        {"batch": 0},
        {"checkpoint_every": 0},
        {"retry": 5},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(Invalid):
        App("sync").job("orders", **options)(handle)


@pytest.mark.parametrize("options", [{"attempts": 0}, {"delay": -1}, {"factor": 0}, {"jitter": 2}])
def test_a_retry_that_makes_no_sense_is_refused(options):
    with pytest.raises(Invalid):
        Retry(**options)


def test_delays_grow_by_the_factor():
    retry = Retry(attempts=5, delay=1.0, factor=2.0, jitter=0.0)
    assert [retry.delay_after(attempt) for attempt in (1, 2, 3)] == [1.0, 2.0, 4.0]
    assert all(0.9 <= Retry().delay_after(1) <= 1.1 for _ in range(100))


@pytest.mark.parametrize("name", ["a b", "", "a/b", ".."])
def test_names_that_zookeeper_could_not_hold_are_refused(name):
    with pytest.raises(Invalid):
        App(name)


def test_a_message_tells_when_it_was_written():
    message = Message({"n": 1}, "orders", "0", "001-0001-000000000000000000", 1_700_000_000_123)
    assert message.written_at.isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert message.attempt == 1


def test_stop_worker_is_an_exception_of_its_own():
    assert issubclass(StopWorker, Exception)


# Finding the application


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])

    def write(text):
        name = f"jobs_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(text)
        return name

    write.folder = tmp_path
    return write


GOOD = "from meantime import App\napp = App('sync')\n@app.job('orders')\ndef handle(message, context): ...\n"


def test_a_target_is_loaded_from_the_folder(module):
    assert load(f"{module(GOOD)}:app", module.folder).name == "sync"


def test_the_attribute_may_be_left_out(module):
    assert load(module(GOOD), module.folder).name == "sync"


@pytest.mark.parametrize(
    ("text", "attribute", "told"),
    [
        (GOOD, "other", "has no 'other'; it has app"),
        ("app = 5", "app", "is a int, not an App"),
        ("from meantime import App\napp = App('sync')", "app", "has no jobs"),
        ("import nowhere_to_be_found", "app", "No module named 'nowhere_to_be_found'"),
        ("1 / 0", "app", "ZeroDivisionError: division by zero"),
        ("def broken(:", "app", "line 1"),
        (GOOD + "@app.job('users')\ndef wrong(message): ...\n", "app", "cannot be called as wrong(message, context)"),
    ],
)
def test_what_is_wrong_with_a_target_is_told_with_its_name(module, text, attribute, told):
    target = f"{module(text)}:{attribute}"
    with pytest.raises(Invalid) as caught:
        load(target, module.folder)
    assert target in caught.value.detail
    assert told in caught.value.detail


@pytest.mark.parametrize("target", ["nosuchmodule:app", ":app", "jobs:", ""])
def test_a_target_that_is_nowhere_is_named(target, tmp_path):
    with pytest.raises(Invalid) as caught:
        load(target, tmp_path)
    assert repr(target) in caught.value.detail
