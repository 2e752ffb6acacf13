"""Networks that split: each node has a network namespace of its own, and rules there drop what comes from others.

All addresses stay loopback addresses. A bridge joins the namespaces with the machine, and the few addresses of nodes are
routed to it instead of to the loopback device. While a node is cut off, nothing that the others send arrives at it, without
any error; what it sends still arrives. So its requests may be carried out, and it never hears of it: the worse half.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from meantime.chaos.injecting.plan import PlannedFault
from meantime.chaos.injecting.stage import Stage
from meantime.errors import StackError
from meantime.stack.model import StackOptions

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
FIRST_PREFERENCE = 10
LOCAL_PREFERENCE = 1000


def why_not_partitions() -> str | None:
    if os.geteuid() != 0:
        return "it takes root to make network namespaces"
    if shutil.which("ip", path=_PATH) is None:
        return "`ip` (iproute2) not found"
    return None


class Network:
    """A bridge, and a namespace with one address for each node."""

    def __init__(self, nodes: list[str]) -> None:
        number = os.getpid()
        self._bridge = f"mt{number % 1_000_000}b"
        self._subnet = f"127.{64 + number % 128}.{number // 128 % 250}"
        self.addresses = {name: f"{self._subnet}.{index}" for index, name in enumerate(nodes, start=11)}
        self._links = {name: f"mt{number % 1_000_000}v{index}" for index, name in enumerate(nodes)}

    def namespace(self, name: str) -> str:
        return f"{self._bridge}-{name}"

    def make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        _set(None, self._bridge)
        # In the table of local addresses, where all of 127.0.0.0/8 belongs to the machine, the longer prefix wins.
        _ip("route", "add", "unicast", f"{self._subnet}.0/24", "dev", self._bridge, "table", "local", "src", "127.0.0.1")
        for name, address in self.addresses.items():
            self._make_namespace(self.namespace(name), self._links[name], address)

    def _make_namespace(self, namespace: str, link: str, address: str) -> None:
        _ip("netns", "add", namespace)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("link", "set", link, "master", self._bridge, "up")
        inside = ("-n", namespace)
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "addr", "del", "127.0.0.1/8", "dev", "lo")
        _ip(*inside, "link", "set", "eth0", "up")
        _set(namespace, "eth0")
        _ip(*inside, "addr", "add", f"{address}/32", "dev", "eth0")
        _ip(*inside, "route", "add", "127.0.0.1/32", "dev", "eth0", "src", address)
        _ip(*inside, "route", "add", f"{self._subnet}.0/24", "dev", "eth0", "src", address)
        # Rules that drop have to be asked before the one that delivers.
        _ip(*inside, "rule", "add", "pref", str(LOCAL_PREFERENCE), "lookup", "local")
        _ip(*inside, "rule", "del", "pref", "0")

    def drop(self) -> None:
        for name in self.addresses:
            _ip("netns", "del", self.namespace(name), check=False)
        _ip("link", "del", self._bridge, check=False)

    def cut(self, name: str, whom: list[tuple[str, ...]]) -> None:
        """Drop what comes from these, each named as a rule selects it."""
        for preference, selector in enumerate(whom, start=FIRST_PREFERENCE):
            _ip("-n", self.namespace(name), "rule", "add", "pref", str(preference), "iif", "eth0", *selector, "blackhole")

    def heal(self, name: str, count: int) -> None:
        for preference in range(FIRST_PREFERENCE, FIRST_PREFERENCE + count):
            _ip("-n", self.namespace(name), "rule", "del", "pref", str(preference), check=False)


class Partitions:
    def __init__(self, options: StackOptions, network: Network) -> None:
        self._network = network
        prefixes = {name: ["ip", "netns", "exec", network.namespace(name)] for name in network.addresses}
        self.options = msgspec.structs.replace(options, node_hosts=network.addresses, process_prefix=prefixes)

    def injector(self, stage: Stage) -> "PartitionInjector":
        return PartitionInjector(stage, self._network)


@contextmanager
def partitions(options: StackOptions, folder: Path) -> Iterator[Partitions]:
    network = Network([f"node-{number}" for number in range(1, (options.nodes or 0) + 1)])
    try:
        network.make()
        yield Partitions(options, network)
    finally:
        network.drop()


class PartitionInjector:
    def __init__(self, stage: Stage, network: Network) -> None:
        self._stage = stage
        self._network = network

    async def inject(self, fault: PlannedFault) -> str | None:
        whom = self._selectors(fault.target, fault.detail)
        await asyncio.to_thread(self._network.cut, fault.target, whom)
        try:
            await asyncio.sleep(fault.lasts)
        finally:
            await asyncio.to_thread(self._network.heal, fault.target, len(whom))
        return f"cut {fault.target} off from {fault.detail}"

    def _selectors(self, node: str, link: str) -> list[tuple[str, ...]]:
        if link == "its peers":
            return [("from", f"{address}/32") for name, address in self._network.addresses.items() if name != node]
        ports = self._stage.folder.read().ports
        return [
            ("ipproto", "tcp", "sport", str(port))
            for name, port in ports.items()
            if name.startswith(link) and not name.endswith(("peer", "election", "agent", "controller"))
        ]


def _set(namespace: str | None, device: str) -> None:
    """Let a device carry loopback addresses."""
    command = ["sysctl", "-qw", f"net.ipv4.conf.{device}.route_localnet=1"]
    _run(*(["ip", "netns", "exec", namespace, *command] if namespace else command))


def _ip(*arguments: str, check: bool = True) -> None:
    _run("ip", *arguments, check=check)


def _run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": _PATH}, timeout=30)
    if check and done.returncode:
        raise StackError(f"{' '.join(command)}: {done.stderr.strip()}")
