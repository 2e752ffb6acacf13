"""Who leads what in a stack with replicas, asked of the services themselves; who does not answer in time leads nothing."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from meantime.stack.folder import StackState
from meantime.stack.model import KafkaLeaders, Leaders, PostgresLeaders
from meantime.stack.services import kafka, postgres, zookeeper
from meantime.stack.services.kafka_quorum import controller_of

T = TypeVar("T")


def leaders(state: StackState) -> Leaders | None:
    """`None` for a stack without replicas, whose services are alone."""
    places = state.places
    if places is None or state.replicas == 1:
        return None
    ports = {row.name: state.ports[row.name] for row in state.processes if row.kind in ("zookeeper", "kafka", "postgres")}
    clusters = {f"kafka-{number}": hosts for number, hosts in enumerate(places.kafka, start=1)}
    with ThreadPoolExecutor(8) as threads:
        ensemble = threads.submit(_zookeeper_leader, _of("zookeeper", ports))
        brokers = {name: threads.submit(_kafka_leaders, hosts, _of(name, ports)) for name, hosts in clusters.items()}
        database = threads.submit(_postgres_leaders, places.postgres, _of("postgres", ports))
        return Leaders(ensemble.result(), {name: found.result() for name, found in brokers.items()}, database.result())


def role(name: str, found: Leaders) -> str:
    """What a process of a service does among its equals."""
    service, _, number = name.rpartition("-")
    if service == "zookeeper":
        return "leader" if name == found.zookeeper else "follower"
    if service == "postgres":
        database = found.postgres
        return "primary" if name == database.primary else "synchronous" if name in database.synchronous else "standby"
    if number and service in found.kafka:
        cluster = found.kafka[service]
        leads = f"leads {cluster.partitions.get(name, 0)} partitions"
        return f"controller, {leads}" if name == cluster.controller else leads
    return ""


def _of(service: str, ports: Mapping[str, int]) -> dict[str, int]:
    return {name: port for name, port in ports.items() if name.rpartition("-")[0] == service}


def _zookeeper_leader(ports: Mapping[str, int]) -> str | None:
    return _first(name for name, port in ports.items() if _asked(partial(zookeeper.mode, port)) == "leader")


def _kafka_leaders(hosts: str, ports: Mapping[str, int]) -> KafkaLeaders:
    names = {int(name.rpartition("-")[2]): name for name in ports}
    controllers = (_asked(partial(controller_of, port)) for port in ports.values())
    controller = _first(names[id] for id in controllers if id in names)
    led = kafka.partitions_led(hosts)
    return KafkaLeaders(controller, {name: led[id] for id, name in names.items()})


def _postgres_leaders(address: str, ports: Mapping[str, int]) -> PostgresLeaders:
    names = {port: name for name, port in ports.items()}
    port, synchronous = postgres.primary_of(address)
    return PostgresLeaders(names.get(port) if port else None, synchronous)


def _asked(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except OSError:
        return None


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)
