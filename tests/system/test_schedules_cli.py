"""`meantime schedules` on a real cluster, as somebody at a terminal or a script would use it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import RunningStack
from meantime import Client
from meantime.cli.main import run


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


Meantime = Callable[..., Ran]


@pytest.fixture
def meantime(cluster: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Meantime:
    monkeypatch.setenv("MEANTIME_DATA", str(cluster.folder.path))

    def command(*arguments: str) -> Ran:
        code = run(("schedules", *arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return command


@pytest.fixture
def client(cluster: RunningStack) -> Iterator[Client]:
    with Client(cluster.urls) as opened:
        yield opened


@pytest.fixture
def topic(client: Client) -> str:
    name = f"t-{uuid4().hex[:12]}"
    client.create_topic(name)
    return name


@pytest.fixture
def own(client: Client) -> Iterator[str]:
    prefix = f"cli-{uuid4().hex[:12]}."
    yield prefix
    for schedule in client.schedules.list(prefix=prefix):
        client.schedules.delete(schedule.id)


def test_a_schedule_is_made_shown_listed_changed_and_deleted(meantime: Meantime, topic: str, own: str) -> None:
    report = f"{own}report"
    calendar = ("--cron", "0 9 * * 1-5", "--zone", "Europe/Berlin", "--topic", topic)
    made = meantime("put", report, *calendar, "--body", '{"n": {{firing}}}', "--json")
    assert (made.code, made.json["version"], made.json["target"]) == (0, 1, {"topic": topic, "group": "default"})
    assert "version 1, fires next at" in meantime("put", report, *calendar, "--body", '{"n": {{firing}}}').err
    assert "version 2" in meantime("put", report, *calendar, "--jitter", "1m", "--if-version", "1").err
    assert meantime("put", report, *calendar, "--if-version", "1").code == 6
    shown = meantime("show", report).out
    assert f"recurs\t0 9 * * 1-5 in Europe/Berlin\nfires into\ttopic {topic}, messages of default\n" in shown
    assert "\njitter\t1 min\n" in shown
    listed = meantime("list", "--prefix", own).out.splitlines()
    assert listed[1].startswith(f"{report}\t0 9 * * 1-5 in Europe/Berlin\ttopic {topic}\t")
    assert [one["id"] for one in meantime("list", "--target", f"topic:{topic}", "--json").json] == [report]
    assert meantime("delete", report).code == 2
    assert meantime("delete", report, "--yes").err.startswith(f"{report} is deleted")
    assert meantime("show", report).code == 5


def test_next_and_preview_print_a_calendar_with_the_change_of_the_clocks(meantime: Meantime, topic: str, own: str) -> None:
    nights = ("--cron", "30 2 * * *", "--zone", "Europe/Berlin")
    lines = meantime("preview", *nights, "--from", "2027-03-27T00:00:00Z", "--count", "3").out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [
        ["local", "UTC"],
        ["Sat 2027-03-27 02:30:00 +01:00", "2027-03-27 01:30:00Z"],
        ["Sun 2027-03-28 03:00:00 +02:00", "2027-03-28 01:00:00Z"],
        ["Mon 2027-03-29 02:30:00 +02:00", "2027-03-29 00:30:00Z"],
    ]
    assert "moved: the clocks go forward past its time; clocks changed: +01:00 → +02:00" in lines[2]
    meantime("put", f"{own}n", *nights, "--on-overlap", "both", "--topic", topic)
    firings = meantime("next", f"{own}n", "--from", "2027-10-30T12:00:00Z", "-n", "2", "--json").json["firings"]
    assert [firing["note"] for firing in firings] == ["first of two", "second of two"]


def test_schedules_are_fired_paused_resumed_and_backfilled(meantime: Meantime, topic: str, own: str, client: Client) -> None:
    hourly = f"{own}hourly"
    meantime("put", hourly, "--every", "1h", "--topic", topic)
    assert meantime("fire", hourly, "--json").json["count"] == 1
    assert client.count(topic, status="available") == 1
    assert meantime("firings", hourly).out.splitlines()[0].split("\t")[:2] == ["instant", "state"]
    assert "fired" in meantime("firings", hourly).out
    assert meantime("pause", hourly, "--note", "holidays").err.startswith(f"paused: {hourly}")
    assert "\tpaused\t" in meantime("list", "--prefix", own, "--paused").out
    assert meantime("resume", "--prefix", own, "--json").json["ids"] == [hourly]
    assert meantime("pause").code == 2
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T03:00:00Z")
    assert meantime("backfill", hourly, *span, "--dry-run", "--json").json["count"] == 3
    assert meantime("backfill", hourly, *span).code == 2
    done = meantime("backfill", hourly, *span, "--yes")
    assert (done.code, "3 fired" in done.err, len(done.out.splitlines())) == (0, True, 3)
    assert meantime("backfill", hourly, *span, "--yes", "--json").json["skipped"] == 3
    assert meantime("moved", "--prefix", own, "--json").json == []


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--cron", "0 0 30 2 *", "--topic", "TOPIC"), 4, "never fires"),
        (("--cron", "0 9 * * *", "--zone", "Europe/Berlim", "--topic", "TOPIC"), 4, "time_zone"),
        (("--every", "100ms", "--topic", "TOPIC"), 4, "every_ms"),
        (("--every", "1m", "--topic", "there-is-none"), 5, "there-is-none"),
        (("--every", "1m", "--topic", "TOPIC", "--body", "{{firing}"), 4, "body"),
        (("--every", "soon", "--topic", "TOPIC"), 2, "soon"),
        (("--topic", "TOPIC"), 2, "--every"),
        (("--every", "1m"), 2, "--kafka-topic"),
    ],
)
def test_what_is_wrong_is_named(
    meantime: Meantime, topic: str, own: str, options: tuple[str, ...], code: int, told: str
) -> None:
    ran = meantime("put", f"{own}a", *(topic if option == "TOPIC" else option for option in options))
    assert (ran.code, told in ran.err) == (code, True), ran.err
