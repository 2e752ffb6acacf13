"""A ZooKeeper of a test's own, to be killed, frozen and started again."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.stack.folder import Folder
from meantime.stack.java.runtime import find_java
from meantime.stack.model import HOST
from meantime.stack.ports import choose
from meantime.stack.services.zookeeper import Server, zookeeper


class ZooKeeperProcess:
    def __init__(self, folder: Path, port: int) -> None:
        self.address = f"{HOST}:{port}"
        self._spec = zookeeper(Folder(folder), find_java(), Server("zookeeper", port))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._spec.prepare:
            self._spec.prepare()
        self._spec.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._spec.log, "ab") as output:
            self._process = subprocess.Popen(
                self._spec.command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._wait_until_ready()

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        assert self._process
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def recover(self) -> None:
        """Let it run again, whether it was killed or frozen."""
        if self._process:
            self.thaw()
        else:
            self.start()

    def _send(self, number: int) -> None:
        assert self._process, "ZooKeeper does not run"
        os.kill(self._process.pid, number)

    def stop(self) -> None:
        if self._process:
            self.kill()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while waiting_for := self._spec.probe and self._spec.probe():
            assert time.monotonic() < deadline, f"still waiting for {waiting_for}"
            time.sleep(0.05)


@contextmanager
def own_zookeeper(folder: Path) -> Iterator[ZooKeeperProcess]:
    process = ZooKeeperProcess(folder, choose(set()))
    process.start()
    try:
        yield process
    finally:
        process.stop()
