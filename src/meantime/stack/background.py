"""A supervisor in the background, in its own session: `meantime up --detach`, and stacks that live with their caller.

The caller gets the events over a pipe until the stack is up or has failed. A caller that asks for `until_eof` holds the
other end of the supervisor's standard input: when it ends, however it ends, the stack stops.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec

from meantime.errors import MeantimeError, StackError
from meantime.stack import reports
from meantime.stack.folder import Folder
from meantime.stack.logfiles import open_log
from meantime.stack.model import Event, StackOptions, Tell
from meantime.stack.supervisor import serve


def launch(options: StackOptions, tell: Tell) -> subprocess.Popen[bytes]:
    """Start a supervisor and wait until everything is ready; raises what the supervisor failed with."""
    read, write = os.pipe()
    with open(read, "rb") as pipe:
        try:
            supervisor = _spawn(options, write)
        finally:
            os.close(write)
        try:
            _listen(reports.from_pipe(pipe), tell)
        except BaseException:
            _cancel(supervisor)
            raise
    return supervisor


def _spawn(options: StackOptions, write: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "meantime.stack.background", str(write), msgspec.json.encode(options).decode()]
    with _errors(Folder(Path(options.data))) as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE if options.until_eof else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(write,),
            start_new_session=True,
        )


def _errors(folder: Folder) -> IO[bytes]:
    """Where a supervisor that breaks tells why; a directory that cannot be used is its own to complain about."""
    try:
        return open_log(folder.logs / "supervisor.log")
    except OSError:
        return open(os.devnull, "wb")


def _listen(events: Iterable[Event], tell: Tell) -> None:
    for event in events:
        if event.kind == "failed":
            raise StackError(event.detail)
        tell(event)
        if event.kind == "up":
            return
    raise StackError("the supervisor ended before the stack was ready; see logs/supervisor.log in the data directory")


def _cancel(supervisor: subprocess.Popen[bytes]) -> None:
    supervisor.terminate()
    supervisor.wait(timeout=60)


def main(write: int, options: StackOptions) -> int:
    """What the background process runs."""
    # Unbuffered: what could not be told would be tried again at the end, and fail there.
    with open(write, "wb", buffering=0) as pipe:
        tell = reports.to_pipe(pipe)
        try:
            serve(options, tell)
        except MeantimeError as error:
            tell(Event("failed", detail=error.detail))
            # The caller may have stopped listening; this goes to the supervisor's log.
            print(error.detail, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=StackOptions)))
