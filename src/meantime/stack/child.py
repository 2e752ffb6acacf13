"""One supervised process.

    start ──► starting ──► ready ──► (dies) ──► down ──back-off──► starting …
                 │                                                    │
                 └── does not come up: `start` fails with why         └── does not come up: tried again for ever

It is in the process table from the moment it exists, so that nothing is lost when the supervisor is killed.
"""

import asyncio
import os
import signal
import subprocess
import time
from contextlib import suppress

from meantime.errors import StackError
from meantime.stack import processes
from meantime.stack.folder import StateFile
from meantime.stack.logfiles import last_lines, open_log
from meantime.stack.model import Event, EventKind, Row, Spec, State, Tell
from meantime.stack.services.account import popen_account

FIRST_TRIES = 3
LONGEST_PAUSE = 30.0
STEADY_AFTER = 60.0
"""A process that ran so long starts its back-off from the beginning."""
MOST_PATIENCE = 8
_PROBE_EVERY = 0.1
_TELL_EVERY = 5.0


class Child:
    def __init__(self, spec: Spec, level: int, state_file: StateFile, tell: Tell) -> None:
        self.spec = spec
        self.level = level
        self._state_file = state_file
        self._tell = tell
        self._process: asyncio.subprocess.Process | None = None
        self._restarts = 0
        self._patience = 1
        """By how much longer than usual it may take: what is slow, such as a broker that reads its log again after a power
        cut on a busy machine, must not be ended before its time over and over."""

    async def start(self) -> None:
        """Bring it up for the first time; after a few tries give up and say why."""
        began = time.monotonic()
        self._say("starting")
        for left in reversed(range(FIRST_TRIES)):
            try:
                await self._launch()
                break
            except StackError as error:
                if self.spec.optional:
                    await self._end_slow()
                    self._note("down")
                    self._say("note", f"did not work: {_why(error)}")
                    return
                if not left or self.spec.once:
                    raise
                self._say("died", f"{_why(error)}; trying again")
                await self._end_slow()
                await asyncio.sleep(pause(FIRST_TRIES - left))
        self._say("ready", seconds=time.monotonic() - began)

    async def keep(self) -> None:
        """Start it again whenever it dies, until cancelled."""
        failures = 0
        while not self.spec.once:
            began = time.monotonic()
            code = await self._wait()
            failures = 1 if time.monotonic() - began > STEADY_AFTER else failures + 1
            self._restarts += 1
            self._note("down")
            self._say("died", f"{how_it_ended(code)}; starting it again in {pause(failures):g} s")
            await asyncio.sleep(pause(failures))
            await self._again()

    async def stop(self) -> None:
        """End it by its own signal, and by force when its time is over."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            self._say("stopping")
            began = time.monotonic()
            if not await _end(process, self.spec.stop_signal, self.spec.stop_within):
                self._say("note", f"did not stop within {self.spec.stop_within:g} s and was killed")
            self._say("stopped", seconds=time.monotonic() - began)
        if self.spec.server_pid_file:
            await asyncio.to_thread(processes.stop_server, self.spec.server_pid_file)
        self._state_file.remove(self.spec.name)

    async def _again(self) -> None:
        began = time.monotonic()
        try:
            await self._launch()
        except StackError as error:
            self._say("note", f"is not back yet: {_why(error)}")
            await self._end_slow()
        else:
            self._say("ready", f"again (restart {self._restarts})", seconds=time.monotonic() - began)

    async def _end_slow(self) -> None:
        """One that lives and does not come up would stand in the way of the next."""
        if self._process and self._process.returncode is None:
            await _end(self._process, self.spec.stop_signal, self.spec.stop_within)

    async def _launch(self) -> None:
        await self._prepare()
        self._process = await self._spawn()
        self._note("starting")
        await (self._finished() if self.spec.once else self._ready())
        self._note("ready")

    async def _prepare(self) -> None:
        """A disk that is full or read-only, or a machine that is too busy, is trouble of this process, not of all others: it
        is tried again."""
        try:
            if self.spec.prepare:
                await asyncio.to_thread(self.spec.prepare)
        except OSError as error:
            raise StackError(f"cannot prepare {self.spec.name}: {error}", why=f"its disk: {error}") from error
        except subprocess.TimeoutExpired as error:
            why = f"what prepares it has not ended within {error.timeout:g} s"
            raise StackError(f"cannot prepare {self.spec.name}: {why}", why=why) from error

    async def _spawn(self) -> asyncio.subprocess.Process:
        with open_log(self.spec.log) as log:
            try:
                return await asyncio.create_subprocess_exec(
                    *self.spec.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.spec.env},
                    cwd=self.spec.folder or self.spec.log.parent.parent,
                    start_new_session=True,
                    **popen_account(self.spec.account),
                )
            except OSError as error:
                raise StackError(f"cannot start {self.spec.name}: {error}") from error

    async def _ready(self) -> None:
        probe = self.spec.probe
        began = told_at = time.monotonic()
        while probe is not None:
            missing = await asyncio.to_thread(probe)
            now = time.monotonic()
            if self._process is None or self._process.returncode is not None:
                raise self._not_up(how_it_ended(self._process.returncode if self._process else None))
            if missing is None:
                self._patience = 1
                return
            if now - began > self.spec.ready_within * self._patience:
                self._patience = min(2 * self._patience, MOST_PATIENCE)
                raise self._not_up(f"still waiting for {missing} after {now - began:.0f} s")
            if now - told_at > _TELL_EVERY:
                told_at = now
                self._say("waiting", missing, seconds=now - began)
            # Who has taken long takes a little longer; asking costs what it needs to come up.
            await asyncio.sleep(min(1.0, max(_PROBE_EVERY, (now - began) / 20)))

    async def _finished(self) -> None:
        """Wait for its end; meanwhile the last line of its log says how far it has come."""
        began = time.monotonic()
        working = asyncio.ensure_future(self._wait())
        try:
            while not (await asyncio.wait({working}, timeout=_TELL_EVERY))[0]:
                took = time.monotonic() - began
                if took > self.spec.ready_within:
                    raise self._not_up(f"not finished after {took:.0f} s")
                if progress := last_lines(self.spec.log, 1).strip():
                    self._say("waiting", f"its end ({progress})", seconds=took)
            code = working.result()
        finally:
            working.cancel()
        if code != 0:
            raise self._not_up(how_it_ended(code))
        self._process = None

    async def _wait(self) -> int:
        return await self._process.wait() if self._process else 0

    def _not_up(self, why: str) -> StackError:
        tail = last_lines(self.spec.log)
        quoted = f":\n{tail}" if tail else ""
        return StackError(f"{self.spec.name} did not come up: {why}. Its log is {self.spec.log}{quoted}", why=why)

    def _note(self, state: State) -> None:
        """Write the present process into the table; one that has done its work leaves it."""
        process = self._process if self._process and self._process.returncode is None else None
        if process is None and self.spec.once:
            self._state_file.remove(self.spec.name)
            return
        self._state_file.put(
            Row(
                kind=self.spec.kind,
                name=self.spec.name,
                mark=processes.identity_of(process.pid) if process else None,
                log=str(self.spec.log),
                state=state,
                restarts=self._restarts,
                stop_signal=self.spec.stop_signal,
                stop_within=self.spec.stop_within,
                level=self.level,
                server_pid_file=str(self.spec.server_pid_file) if self.spec.server_pid_file else None,
            )
        )

    def _say(self, kind: EventKind, detail: str = "", seconds: float = 0.0) -> None:
        self._tell(Event(kind, self.spec.name, detail, seconds))


async def _end(process: asyncio.subprocess.Process, number: int, within: float) -> bool:
    """Whether it obeyed; if not, it and its children have been killed."""
    with suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        async with asyncio.timeout(within):
            await process.wait()
        return True
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        return False


def _why(error: StackError) -> str:
    return str(error.extras.get("why", error.detail))


def pause(failures: int) -> float:
    """Seconds before the next try: 0.5, 1, 2, 4 … 30."""
    return float(min(LONGEST_PAUSE, 0.5 * 2 ** (failures - 1)))


def how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
