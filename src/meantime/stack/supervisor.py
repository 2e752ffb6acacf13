"""Runs one stack: holds its data directory, starts its processes in order, keeps them, stops them in reverse order.

A process starts as soon as all that it depends on is ready, and stops before any of these does. Whatever ends the supervisor
(a signal, the end of its caller, a process that does not come up) ends in the same bounded, orderly stop. Only kill -9
does not; the next `up` or `down` then finds the leftovers in the process table.
"""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from meantime.errors import StackError
from meantime.extras import EXTRAS, require
from meantime.stack import plan, processes
from meantime.stack.child import Child
from meantime.stack.folder import Folder, StateFile
from meantime.stack.java.runtime import find_java
from meantime.stack.model import Event, Spec, StackOptions, Tell
from meantime.stack.ports import reserved
from meantime.stack.reports import logged
from meantime.stack.services.nodes import with_keys
from meantime.tasks import end


def serve(options: StackOptions, tell: Tell) -> None:
    """Run the stack until it is told to stop; returns when nothing of it is left running."""
    folder = Folder(Path(options.data))
    try:
        with folder.locked(), logged(folder, tell) as both:
            folder.check_space()
            _serve_locked(folder, options, both)
    except OSError as error:
        raise _explained(error, folder) from error


def _serve_locked(folder: Folder, options: StackOptions, tell: Tell) -> None:
    state_file = StateFile(folder)
    processes.stop_leftovers(state_file.state.processes, lambda text: tell(Event("note", "", text)))
    state_file.change(supervisor=processes.identity_of(os.getpid()), ready=False, processes=())
    try:
        specs = _prepare(folder, state_file, options)
        with reserved(state_file.state.ports.values()):
            asyncio.run(_supervise(specs, state_file, options, tell))
    finally:
        state_file.change(supervisor=None, ready=False)


def _prepare(folder: Folder, state_file: StateFile, options: StackOptions) -> tuple[Spec, ...]:
    require("stack", "the stack", *EXTRAS["node"], "pyspark", *EXTRAS["stack"])
    size = plan.size_of(options, state_file.state)
    if size.replicas > 1:
        require("ha", "a stack with replicas", *EXTRAS["ha"])
    java = find_java()
    ports = plan.ports_of(size, options, state_file.state)
    places = plan.places_of(folder, size, ports, options.node_hosts)
    auth = state_file.state.auth if options.auth is None else options.auth
    durable = state_file.state.durable if options.durable is None else options.durable
    options = msgspec.structs.replace(options, replicas=size.replicas, durable=durable)
    state_file.change(
        nodes=size.nodes,
        kafka=size.kafka,
        replicas=size.replicas,
        durable=durable,
        auth=auth,
        ports=ports,
        places=places,
    )
    if auth:
        options = msgspec.structs.replace(options, node_env={**options.node_env, **with_keys(folder)})
    return plan.specs_of(folder, options, places, ports, java)


async def _supervise(specs: tuple[Spec, ...], state_file: StateFile, options: StackOptions, tell: Tell) -> None:
    levels = plan.levels(specs)
    children = [Child(spec, levels[spec.name], state_file, tell) for spec in specs]
    late = [child for child in children if child.spec.late and not options.wait_for_late]
    ready = {child.spec.name: asyncio.Event() for child in children}
    async with _stop_requested(options.until_eof) as stop:
        try:
            await _unless(stop, _run(children, late, ready, lambda: _up(state_file, late, tell)))
        finally:
            state_file.change(ready=False)
            await _stop(children)


async def _run(children: list[Child], late: list[Child], ready: Mapping[str, asyncio.Event], up: Callable[[], None]) -> None:
    """Start everything and keep it; `up` is called when all but the late ones are ready."""

    async def in_time() -> None:
        await _together(_start(child, ready) for child in children if child not in late)
        up()
        await _together(child.keep() for child in children if child not in late)

    await _together([in_time(), *(_start_and_keep(child, ready) for child in late)])


def _up(state_file: StateFile, late: list[Child], tell: Tell) -> None:
    state_file.change(ready=True)
    for child in late:
        if not child.spec.once:
            tell(Event("note", "", f"{child.spec.name} is still starting; what it does comes late until it is ready"))
    tell(Event("up"))


async def _start(child: Child, ready: Mapping[str, asyncio.Event]) -> None:
    for name in child.spec.depends:
        await ready[name].wait()
    await child.start()
    ready[child.spec.name].set()


async def _start_and_keep(child: Child, ready: Mapping[str, asyncio.Event]) -> None:
    await _start(child, ready)
    await child.keep()


async def _stop(children: list[Child]) -> None:
    for level in sorted({child.level for child in children}, reverse=True):
        await asyncio.gather(*(child.stop() for child in children if child.level == level))


async def _together(tasks: Iterable[Coroutine[None, None, None]]) -> None:
    """All at once; the first that fails ends the others and is what is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Whether the work was done before a stop was requested."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        await end(working, waiting)


@asynccontextmanager
async def _stop_requested(until_eof: bool) -> AsyncIterator[asyncio.Event]:
    """Set by SIGINT, SIGTERM or SIGHUP, and by the end of standard input for a stack that lives only with its caller."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    if until_eof:
        loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 64) else _ended(loop, stop))
    yield stop


def _ended(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    loop.remove_reader(sys.stdin.fileno())
    stop.set()


def _explained(error: OSError, folder: Folder) -> StackError:
    if error.errno == errno.ENOSPC:
        return StackError(f"the disk of {folder.path} is full: make room, or choose another place with --data")
    return StackError(f"cannot work in {folder.path}: {error}")
