"""Ports: free ones are chosen once and then kept, because clients and registered storages remember them.

They are taken from below the range in which the system picks the local ends of outgoing connections: a service that is
down for a moment would otherwise lose its port to some client that happens to connect. A running stack reserves its ports,
so that another one that starts in the same moment does not choose them as well.
"""

import random
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from meantime.errors import StackError
from meantime.stack.model import HOST

FIRST_NODE_PORT = 8080
_LOWEST = 20_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int, *, unreserved: bool = False) -> bool:
    """Whether a server could listen there; with `unreserved`, also whether nobody has reserved it."""
    with socket.socket() as probe:
        # What lingers in TIME_WAIT keeps no server from listening again, and neither does a reservation.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, not unreserved)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


@contextmanager
def reserved(ports: Iterable[int]) -> Iterator[None]:
    """Meanwhile nobody else chooses these. On Linux a socket that is bound and does not listen is in no server's way that
    asks to reuse its address, as all of ours do; on other systems it might be, so nothing is reserved there."""
    with ExitStack() as held:
        for port in ports if sys.platform == "linux" else ():
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
            # Who listens there already has it anyway.
            with suppress(OSError):
                one.bind((HOST, port))
        yield


def assign(remembered: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    """A port for each name: the remembered one, or a free one that nobody else has."""
    assigned: dict[str, int] = {}
    for name in names:
        taken = {*remembered.values(), *assigned.values()}
        assigned[name] = kept(name, remembered[name]) if name in remembered else choose(taken)
    return assigned


def assign_nodes(remembered: Mapping[str, int], count: int, first: int | None) -> dict[str, int]:
    """Ports for `node-1` … `node-<count>`: from `first` on if it is given, else as remembered, else from 8080 on."""
    names = [f"node-{number}" for number in range(1, count + 1)]
    if first is not None:
        return {name: kept(name, first + offset) for offset, name in enumerate(names)}
    wished = range(FIRST_NODE_PORT, FIRST_NODE_PORT + count)
    others = {port for name, port in remembered.items() if name not in names}
    if not any(name in remembered for name in names) and all(is_free(port) and port not in others for port in wished):
        return dict(zip(names, wished, strict=True))
    return assign(remembered, names)


def kept(name: str, port: int) -> int:
    """The port, if it can be had; a service never moves silently away from where its clients look for it."""
    if not is_free(port):
        raise StackError(
            f"port {port} of {name} is taken by another program: stop that program (`ss -ltnp` shows it), "
            f"or choose another port (--port for nodes, another --data for a new stack)",
            port=port,
        )
    return port


def choose(taken: set[int]) -> int:
    highest = _ephemeral_start()
    for _ in range(200):
        port = random.randrange(_LOWEST, highest) if highest - _LOWEST >= 1000 else _any_port()
        if port not in taken and is_free(port, unreserved=True):
            return port
    raise StackError("no free port found on 127.0.0.1: stop some of the programs that listen there")


def _ephemeral_start() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
