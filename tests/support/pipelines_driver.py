"""Pipelines as processes that are stopped and killed, and events that keep coming meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from conftest import RunningStack
from meantime import Client

PER_CALL = 500


def command(stack: RunningStack, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "meantime", "pipeline", *arguments, "--data", str(stack.folder.path)]


def wait_for(condition: Callable[[], bool], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


class Driver:
    """A pipeline and its Spark, in a group of processes of their own."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self.log = log
        # What a killed one leaves behind is gone with the test.
        env = {**os.environ, "TMPDIR": str(log.parent)}
        with log.open("ab") as opened:
            self._process = subprocess.Popen(arguments, stdout=opened, stderr=opened, env=env, start_new_session=True)

    def wait_for(self, condition: Callable[[], bool], within: float) -> None:
        wait_for(lambda: condition() or self._process.poll() is not None, within)
        assert self._process.poll() is None, f"it ended by itself:\n{self.log.read_text()[-4000:]}"

    def kill(self) -> None:
        """As kill -9 does it to the whole driver, Python and Java."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self, within: float = 240) -> int:
        """SIGTERM as soon as it has ears for it, and what it exits with."""
        wait_for(self._listens)
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(within)

    def _listens(self) -> bool:
        """Whether it catches SIGTERM; in its first moments every process just dies of it."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
        return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


class Publishing(threading.Thread):
    """So many events at an even pace, with switches of the storage evenly between them."""

    def __init__(
        self, url: str, event_type: str, event: Callable[[int], bytes], *, count: int, lasting: float, switches: int
    ):
        super().__init__(name="publishing", daemon=True)
        self._url, self._event_type, self._event = url, event_type, event
        self._count, self._lasting, self._switches = count, lasting, switches
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with Client(self._url) as client:
                self._publish(client)
        except Exception as error:
            self.failure = error

    def _publish(self, client: Client) -> None:
        storages = [storage.id for storage in client.storages() if not storage.default]
        storages += [storage.id for storage in client.storages() if storage.default]
        began, switched = time.monotonic(), 0
        for first in range(0, self._count, PER_CALL):
            if first * (self._switches + 1) >= self._count * (switched + 1):
                client.switch(self._event_type, storages[switched % len(storages)])
                switched += 1
            last = min(first + PER_CALL, self._count)
            client.publish_encoded(self._event_type, b"[%b]" % b",".join(map(self._event, range(first, last))))
            time.sleep(max(0.0, began + self._lasting * last / self._count - time.monotonic()))

    def finish(self) -> None:
        self.join()
        if self.failure is not None:
            raise self.failure
