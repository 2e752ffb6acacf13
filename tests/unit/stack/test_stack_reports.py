import io

from meantime.stack.folder import Folder
from meantime.stack.logfiles import last_lines, open_log
from meantime.stack.model import Event
from meantime.stack.reports import from_pipe, line, logged, reporter, to_pipe


def test_events_are_told_as_sentences():
    assert line(Event("starting", "kafka-1")) == "kafka-1: starting"
    assert line(Event("waiting", "kafka-1", "the broker to answer", 5.04)) == (
        "kafka-1: waiting for the broker to answer, 5.0 s so far"
    )
    assert line(Event("ready", "kafka-1", seconds=2)) == "kafka-1: ready after 2.0 s"
    assert line(Event("ready", "kafka-1", "again (restart 1)", 2)) == "kafka-1: ready again (restart 1) after 2.0 s"
    assert line(Event("died", "node-1", "killed by SIGKILL")) == "node-1: killed by SIGKILL"
    assert line(Event("note", detail="something {odd}")) == "something {odd}"


def test_elsewhere_than_on_a_terminal_events_are_plain_lines(capsys):
    with reporter() as tell:
        tell(Event("stopping", "postgres"))
    assert capsys.readouterr() == ("", "postgres: stopping\n")


def test_events_are_written_down_too(tmp_path):
    heard: list[Event] = []
    with logged(Folder(tmp_path), heard.append) as tell:
        tell(Event("up"))
    assert heard == [Event("up")]
    assert (tmp_path / "logs" / "supervisor.log").read_text().endswith("Z the stack is ready\n")


def test_events_go_through_a_pipe_whole():
    pipe = io.BytesIO()
    to_pipe(pipe)(Event("ready", "node-1", "", 1.5))
    pipe.seek(0)
    assert list(from_pipe(pipe)) == [Event("ready", "node-1", "", 1.5)]


def test_nobody_at_the_other_end_of_the_pipe_does_no_harm():
    class Broken(io.BytesIO):
        def write(self, data):
            raise BrokenPipeError

    tell = to_pipe(Broken())
    tell(Event("up"))
    tell(Event("up"))


def test_the_last_lines_of_a_log_are_quoted(tmp_path):
    with open_log(tmp_path / "x.log") as log:
        log.write(b"".join(b"line %d\n\n" % number for number in range(9)))
    assert last_lines(tmp_path / "x.log", 2) == "  line 7\n  line 8"
    assert last_lines(tmp_path / "missing.log") == ""


def test_a_log_that_has_grown_large_is_put_aside(tmp_path):
    (tmp_path / "x.log").write_bytes(b"x" * (11 * 1024 * 1024))
    open_log(tmp_path / "x.log").close()
    assert (tmp_path / "x.log").stat().st_size == 0
    assert (tmp_path / "x.old.log").exists()
