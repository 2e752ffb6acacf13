"""Commands on a real cluster, as somebody at a terminal or a script would use them."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
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

    @property
    def lines(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


Meantime = Callable[..., Ran]


@pytest.fixture
def meantime(cluster: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Meantime:
    monkeypatch.setenv("MEANTIME_DATA", str(cluster.folder.path))

    def command(*arguments: str) -> Ran:
        code = run(arguments)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return command


@pytest.fixture
def orders(meantime: Meantime) -> str:
    name = f"orders-{uuid4().hex[:12]}"
    assert meantime("event-types", "create", name).code == 0
    return name


@pytest.fixture
def topic(meantime: Meantime) -> str:
    name = f"t-{uuid4().hex[:12]}"
    assert meantime("topics", "create", name).code == 0
    return name


@pytest.fixture
def client(cluster: RunningStack) -> Iterator[Client]:
    with Client(cluster.urls) as opened:
        yield opened


def test_events_go_in_from_a_file_and_come_out_in_order(meantime: Meantime, orders: str, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text("".join(f'{{"n": {n}}}\n' for n in range(250)))
    assert meantime("publish", orders, str(file), "--json").json["published"] == 250
    ran = meantime("tail", orders, "--from", "begin", "--once")
    assert [line["n"] for line in ran.lines] == list(range(250))


def test_tail_can_start_after_a_cursor_and_shows_where_it_is(meantime: Meantime, orders: str) -> None:
    meantime("publish", orders, "-e", '{"n": 1}', "-e", '{"n": 2}', "-e", '{"n": 3}')
    first = meantime("tail", orders, "--from", "begin", "-n", "1", "--json").lines[0]
    assert first["event"] == {"n": 1}
    after = meantime("tail", orders, "--cursor", f"{first['partition']}:{first['offset']}", "--once")
    assert [line["n"] for line in after.lines] == [2, 3]


def test_publishing_stops_at_the_first_refused_event(meantime: Meantime, orders: str, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text('{"n": 1}\n{"n": 2}\nnonsense\n{"n": 4}\n')
    ran = meantime("publish", orders, str(file), "--batch", "2")
    assert ran.code == 4
    assert f"{file}:3 is not a JSON object" in ran.err
    assert "published 2 events before it ended" in ran.err


def test_with_rejects_publishing_goes_on_and_keeps_them(meantime: Meantime, tmp_path: Path) -> None:
    name = f"strict-{uuid4().hex[:12]}"
    schema, events, rejects = tmp_path / "schema.json", tmp_path / "events.ndjson", tmp_path / "rejects.ndjson"
    schema.write_text('{"type": "object", "required": ["n"]}')
    events.write_text('{"n": 1}\n{"bad": 2}\nnonsense\n{"n": 4}\n')
    meantime("event-types", "create", name, "--schema", str(schema))
    ran = meantime("publish", name, str(events), "--rejects", str(rejects), "--json")
    assert ran.code == 9
    assert (ran.json["published"], ran.json["rejected"]) == (2, 2)
    assert sorted(rejects.read_text().splitlines()) == ["nonsense", '{"bad": 2}']


def test_event_types_are_listed_shown_changed_and_deleted(meantime: Meantime, orders: str) -> None:
    assert meantime("event-types", "create", orders).code == 6
    assert meantime("event-types", "update", orders, "--retention", "3h").code == 0
    shown = meantime("event-types", "show", orders, "--json").json
    assert (shown["options"]["retention_time"], len(shown["partitions"]), len(shown["timelines"])) == (10_800_000, 1, 1)
    assert f"{orders}\tundefined\trandom\t1\t3 h" in meantime("event-types", "list").out
    assert meantime("event-types", "delete", orders, "--yes").code == 0
    assert meantime("event-types", "show", orders).code == 5


def test_subscriptions_are_listed_shown_reset_and_deleted(meantime: Meantime, orders: str, client: Client) -> None:
    client.publish(orders, [{"n": number} for number in range(3)])
    subscription = client.subscribe(orders, owning_application="shop", consumer_group="mail").id
    assert [one["id"] for one in meantime("subscriptions", "list", "--event-type", orders, "--json").json] == [subscription]
    assert meantime("subscriptions", "list", "--owner", "nobody", "--json").json == []
    shown = meantime("subscriptions", "show", subscription)
    assert shown.out.splitlines()[1].split("\t")[:3] == [orders, "0", "nobody"]
    assert meantime("subscriptions", "reset", subscription, "BEGIN", "--yes").code == 0
    (stats,) = meantime("subscriptions", "show", subscription, "--json").json["stats"]
    assert stats["partitions"][0]["unconsumed_events"] == 3
    wrong = meantime("subscriptions", "reset", subscription, "BEGIN", "--partition", f"{orders}/9", "--yes")
    assert (wrong.code, f"it has {orders}/0" in wrong.err) == (5, True)
    in_the_way = meantime("event-types", "delete", orders, "--yes")
    assert (in_the_way.code, subscription in in_the_way.err) == (6, True)
    assert meantime("subscriptions", "delete", subscription, "--yes").code == 0
    assert meantime("subscriptions", "show", subscription).code == 5


def test_nodes_of_a_cluster_are_shown(meantime: Meantime, cluster: RunningStack) -> None:
    assert {node["url"] for node in meantime("nodes", "--json").json} == set(cluster.urls)
    assert all(url in meantime("nodes", "--url", cluster.urls[0]).out for url in cluster.urls)


def test_what_is_named_and_does_not_exist_is_exit_code_5(meantime: Meantime, orders: str) -> None:
    for command in (("switch", orders, "nowhere"), ("event-types", "show", "nothing"), ("storages", "show", "nowhere")):
        assert meantime(*command).code == 5, command


def test_a_switch_tells_how_long_publishers_waited(meantime: Meantime, orders: str) -> None:
    storages = meantime("storages", "list", "--json").json
    away = next(storage["id"] for storage in storages if not storage["default"])
    done = meantime("switch", orders, away, "--json").json
    assert (done["timeline"]["order"], done["switch"]["state"]) == (2, "done")
    assert done["switch"]["stall_ms"] >= 0
    back = meantime("switch", orders, next(storage["id"] for storage in storages if storage["default"]))
    assert "(timeline 3); publishers waited" in back.out
    assert meantime("switch", orders, "nowhere").code == 5


def test_a_message_is_scheduled_moved_and_taken_back(meantime: Meantime, topic: str) -> None:
    assert "scheduled a, due at" in meantime("schedule", topic, '{"n": 1}', "--after", "1h", "--id", "a").err
    assert "exists a" in meantime("schedule", topic, '{"n": 1}', "--after", "1h", "--id", "a").err
    assert meantime("topics", "messages", "move", topic, "a", "--at", "+2h", "--json").json["version"] == 2
    assert meantime("topics", "messages", "show", topic, "a", "--json").json["body"] == {"n": 1}
    assert meantime("topics", "messages", "show", topic, "a", "--group", "others").code == 7
    assert meantime("topics", "messages", "delete", topic, "a").code == 0
    assert meantime("topics", "messages", "show", topic, "a").code == 5


def test_files_of_messages_are_scheduled_and_bad_lines_named(meantime: Meantime, topic: str, tmp_path: Path) -> None:
    file, rejects = tmp_path / "m.csv", tmp_path / "rejects"
    file.write_text("id,name,after\na,Ada,1h\nb,Bob,sometime\n c !,Cy,1h\nd,Dee,2h\n")
    ran = meantime("schedule", topic, "--file", str(file), "--rejects", str(rejects), "--json")
    assert ran.code == 9
    assert (ran.json["scheduled"], ran.json["rejected"]) == (2, 2)
    assert f"rejected {file}:3: 'sometime' is not a duration" in ran.err
    assert len(rejects.read_text().splitlines()) == 2
    again = meantime("schedule", topic, "--file", str(file), "--json").json
    assert (again["scheduled"], again["existed"]) == (0, 2)
    assert [line["id"] for line in meantime("topics", "messages", "list", topic, "--json").lines] == ["a", "d"]
    slots = meantime("load", topic, "--for", "3h", "--step", "1h", "--json").json["slots"]
    assert sum(slot["waiting"] for slot in slots) == 2


def test_consume_prints_and_deletes(meantime: Meantime, topic: str, client: Client) -> None:
    client.schedule(topic, {"n": 1}, after=0)
    assert meantime("consume", topic, "-n", "1", "--then", "release").lines == [{"n": 1}]
    (lease,) = meantime("consume", topic, "-n", "1", "--json", "--pull").lines
    assert (lease["attempts"], lease["body"]) == (2, {"n": 1})
    assert client.count(topic) == 0


def test_exec_deletes_what_succeeds_and_releases_what_fails(
    meantime: Meantime, topic: str, tmp_path: Path, client: Client
) -> None:
    client.schedule(topic, "hello", after=0, id="a")
    script = f'(cat; echo " $MEANTIME_ID $MEANTIME_ATTEMPTS") >> {tmp_path}/got; test $MEANTIME_ATTEMPTS = 2'
    ran = meantime("consume", topic, "-n", "2", "--exec", script, "--retry-after", "50ms")
    assert ran.code == 0
    assert "a: the command ended with 1; again in 0.05 s" in ran.err
    assert "a: done" in ran.err
    assert (tmp_path / "got").read_text() == '"hello" a 1\n"hello" a 2\n'
    assert client.count(topic) == 0


def test_a_command_that_keeps_failing_is_told_by_the_exit_code(meantime: Meantime, topic: str, client: Client) -> None:
    client.schedule(topic, "hello", after=0, id="a")
    assert meantime("consume", topic, "-n", "1", "--exec", "exit 1").code == 9


def test_a_body_that_begins_like_json_and_is_none_is_taken_as_text_with_a_warning(meantime: Meantime, topic: str) -> None:
    ran = meantime("schedule", topic, "{say: hello}", "--after", "0s")
    assert (ran.code, "begins like JSON and is none" in ran.err) == (0, True)
    assert "warning" not in meantime("schedule", topic, "hello", "--after", "0s").err
    assert "warning" not in meantime("schedule", topic, '{"say": "hello"}', "--after", "0s").err


def test_what_lies_too_far_ahead_is_told_in_days(meantime: Meantime, topic: str, orders: str) -> None:
    message = meantime("schedule", topic, "hello", "--after", "999d")
    timer = meantime("timers", "set", f"event-type:{orders}", "{}", "--after", "999d")
    assert (message.code, "more than 365 d ahead" in message.err) == (4, True)
    assert (timer.code, "365 d ahead at most" in timer.err) == (4, True)


def test_a_cancel_of_a_timer_that_nobody_knows_says_so(meantime: Meantime, orders: str, client: Client) -> None:
    second = int(client.now()) + 3600
    unknown = meantime("timers", "cancel", f"typo-{uuid4().hex[:8]}", "--at", str(second))
    assert (unknown.code, "no such timer is known" in unknown.out) == (0, True)
    never = meantime("timers", "cancel", f"typo-{uuid4().hex[:8]}", "--at", str(second + 400 * 86_400))
    assert (never.code, "365 d ahead at most" in never.err) == (4, True)
    token = meantime("timers", "set", f"event-type:{orders}", "{}", "--after", "1h", "--json").json["token"]
    known = meantime("timers", "cancel", token)
    assert (known.code, known.out.strip()) == (0, f"{token} is cancelled")


def test_who_sets_a_timer_while_nobody_fires_hears_of_it(meantime: Meantime, orders: str, client: Client) -> None:
    alone = not client.timer_status()["dispatcher"]["instances"]
    ran = meantime("timers", "set", f"event-type:{orders}", "{}", "--after", "1h")
    assert (ran.code, "no dispatcher is running" in ran.err) == (0, alone)


def test_people_read_instants_and_durations_and_scripts_get_milliseconds(
    meantime: Meantime, orders: str, topic: str, client: Client
) -> None:
    subscription = client.subscribe(orders, owning_application="shop", consumer_group="mail").id
    scheduled = meantime("schedule", topic, "hello", "--id", "m1", "--after", "3m10s")
    moved = meantime("topics", "messages", "move", topic, "m1", "--after", "1h30m")
    assert re.search(r"due at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?Z \(in 3 min\)", scheduled.err)
    assert "Z (in 1 h 30 min)" in moved.err
    commands = [
        ["topics", "list"],
        ["topics", "show", topic],
        ["topics", "messages", "list", topic],
        ["topics", "messages", "show", topic, "m1"],
        ["load", topic, "--for", "2h"],
        ["event-types", "list"],
        ["event-types", "show", orders],
        ["subscriptions", "list"],
        ["subscriptions", "show", subscription],
        ["switch", orders, "kafka-2"],
        ["storages", "list"],
        ["timers", "status"],
        ["timers", "load", "--for", "10m"],
        ["apps", "list"],
        ["keys", "list"],
        ["nodes"],
    ]
    for command in commands:
        ran = meantime(*command)
        assert ran.code == 0, f"{command}: {ran.err}"
        assert not re.search(r"(?<![0-9a-f])\d{13}(?![0-9a-f])", ran.out + ran.err), f"{command}: {ran.out}{ran.err}"
        assert "_ms" not in ran.out, f"{command}: {ran.out}"
    assert isinstance(meantime("topics", "messages", "show", topic, "m1", "--json").json["at_ms"], int)
    assert isinstance(meantime("load", topic, "--json").json["step_ms"], int)


def test_a_topic_says_when_what_failed_comes_again(meantime: Meantime, topic: str, tmp_path: Path, client: Client) -> None:
    for wrong in (("--retry-delay", "5"), ("--retry-factor", "0.5"), ("--retry-jitter", "2")):
        assert meantime("topics", "create", topic, *wrong).code == 2, wrong
    refused = meantime("topics", "create", topic, "--retry-max", "9000d")
    assert (refused.code, "retry.max_ms must be from 0 to" in refused.err) == (4, True)
    meantime("topics", "create", topic, "--retry-delay", "100ms", "--retry-factor", "3", "--retry-jitter", "0")
    shown = meantime("topics", "show", topic)
    assert "retry\tafter 100 ms, 3 times as long with every attempt, 1 h at most, ±0 %" in shown.out
    client.schedule(topic, "more than a pipe holds, which nobody reads" * 3000, after=0, id="a")
    script = f'echo "$MEANTIME_ATTEMPTS $MEANTIME_REASON" >> {tmp_path}/got; test $MEANTIME_ATTEMPTS = 3 || exit 7'
    ran = meantime("consume", topic, "-n", "3", "--exec", script)
    assert "a: the command ended with 7; again when the topic's retry policy says" in ran.err
    why = "the command ended with 7"
    assert (tmp_path / "got").read_text() == f"1 \n2 {why}\n3 {why}\n"


def test_who_is_on_call_sees_the_dead_letters_of_all_groups_and_why(
    meantime: Meantime, cluster: RunningStack, topic: str
) -> None:
    dead = f"{topic}.dead"
    meantime("topics", "create", dead)
    meantime("topics", "create", topic, "--max-attempts", "2", "--dead-letters", dead, "--retry-delay", "50ms")
    assert meantime("topics", "messages", "list", dead).err == ""
    meantime("schedule", topic, '{"n": 1}', "--after", "0s", "--id", "a", "--group", "billing")
    with Client(cluster.urls) as client, pytest.raises(ZeroDivisionError), next(client.consume(topic, "worker")):
        raise ZeroDivisionError("no share")
    meantime("consume", topic, "-n", "1", "--consumer", "w", "--then", "release", "--reason", "not\ntoday")
    empty = meantime("topics", "messages", "list", dead)
    assert (empty.code, len(empty.out.splitlines())) == (0, 1)
    assert f"1 message belongs to other groups; --all with scope operate:{dead} shows them" in empty.err
    listed = meantime("topics", "messages", "list", dead, "--all")
    assert listed.out.splitlines()[1].split("\t")[-2:] == ["billing", "not today"]
    (letter,) = meantime("topics", "messages", "list", dead, "-a", "--json").lines
    assert [one["reason"] for one in letter["dead_letter"]["history"]] == ["ZeroDivisionError: no share", "not\ntoday"]
    assert meantime("topics", "messages", "show", dead, "a").code == 7
    shown = meantime("topics", "messages", "show", dead, "a", "--all").out
    assert "attempt 1 failed\t" in shown
    assert ", worker: ZeroDivisionError: no share" in shown
    assert f", in {topic}" in shown
    assert meantime("topics", "messages", "show", dead, "b", "--all").code == 5
    assert meantime("topics", "messages", "list", dead, "--all", "--after-id", "a").code == 2
    assert "1 sent back" in meantime("topics", "redrive", dead).err
    assert meantime("consume", topic, "-n", "1", "--json").lines[0]["attempts"] == 1


def test_dead_messages_are_sent_back(meantime: Meantime, topic: str, client: Client) -> None:
    meantime("topics", "create", topic, "--max-attempts", "1")
    client.schedule(topic, 1, after=0)
    meantime("consume", topic, "-n", "1", "--then", "release")
    assert meantime("topics", "show", topic, "--json").json["counts"]["dead"] == 1
    assert meantime("topics", "redrive", topic, "--json").json == {"moved": 1, "skipped": 0}
    assert meantime("consume", topic, "-n", "1").code == 0


def test_a_timer_that_needs_its_second_is_asked_for_it_in_words_of_the_command_line(meantime: Meantime) -> None:
    ran = meantime("timers", "cancel", f"own-{uuid4().hex[:12]}")
    assert ran.code == 5
    assert "give --at" in ran.err
    assert "?at=" not in ran.err


def test_ctrl_c_ends_a_command_quietly(cluster: RunningStack, orders: str, topic: str, client: Client) -> None:
    client.publish(orders, {"n": 1})
    client.schedule(topic, {"n": 1}, after=0)
    environment = os.environ | {"MEANTIME_DATA": str(cluster.folder.path)}
    for arguments in (["tail", orders, "--from", "begin"], ["consume", topic]):
        process = subprocess.Popen(
            [sys.executable, "-m", "meantime", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"n":1}\n'
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, b""), arguments


def test_a_reader_that_has_enough_ends_tail(cluster: RunningStack, orders: str, meantime: Meantime) -> None:
    meantime("publish", orders, *(text for n in range(5) for text in ("-e", f'{{"n": {n}}}')))
    environment = os.environ | {"MEANTIME_DATA": str(cluster.folder.path)}
    pipeline = f"{sys.executable} -m meantime tail {orders} --from begin | head -1"
    command = ["bash", "-o", "pipefail", "-c", pipeline]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ('{"n":0}\n', "", 141)


def test_a_command_that_loses_its_lease_is_stopped(
    cluster: RunningStack, topic: str, client: Client, tmp_path: Path
) -> None:
    client.schedule(topic, 1, after=0, id="a")
    command = ["consume", topic, "--consumer", "w", "-n", "1", "--lease", "2s", "--exec", f"touch {tmp_path}/on; sleep 60"]
    process = subprocess.Popen(
        [sys.executable, "-m", "meantime", *command],
        env=os.environ | {"MEANTIME_DATA": str(cluster.folder.path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "on").exists():
        assert process.poll() is None
        time.sleep(0.05)
    held = client.message(topic, "a")
    assert client.release_leases(topic, "w", [held], after=3600)[0].status == "ok"
    _, err = process.communicate(timeout=60)
    assert err == "a: the lease was lost; the command was stopped\n"
