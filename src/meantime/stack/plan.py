"""Which processes a stack has, on which ports, and who waits for whom.

    zookeeper   kafka-1 … kafka-K   postgres
         └───────────┴──────┬──────────┤
                            │       migrate
                            └──► node-1 … node-N

A new kind of process is one more `Spec` in `specs_of`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from meantime.errors import StackError
from meantime.stack import ports
from meantime.stack.class_archives import trial_spec
from meantime.stack.folder import Folder, Memory
from meantime.stack.java.runtime import Java
from meantime.stack.model import HOST, ROOT, Node, Options, Places, Spec
from meantime.stack.services import kafka, nodes, postgres, timers, zookeeper


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    kafka: int


def size_of(options: Options, memory: Memory) -> Size:
    size = Size(
        nodes=memory.nodes if options.nodes is None else options.nodes,
        kafka=memory.kafka if options.kafka is None else options.kafka,
    )
    if size.kafka < 1 or size.nodes < 0:
        raise StackError("a stack has at least one Kafka and no fewer than 0 nodes: change --kafka or --nodes")
    return size


def ports_of(size: Size, options: Options, memory: Memory) -> dict[str, int]:
    """All ports, remembered ones first; those of nodes and brokers that do not run this time stay reserved."""
    clusters = cluster_names(size.kafka)
    services = ["zookeeper", "postgres", *clusters, *(f"{name}-controller" for name in clusters)]
    for_services = ports.assign(memory.ports, services)
    for_nodes = ports.assign_nodes({**memory.ports, **for_services}, size.nodes, options.port)
    return {**memory.ports, **for_services, **for_nodes}


def cluster_names(count: int) -> list[str]:
    return [f"kafka-{number}" for number in range(1, count + 1)]


def places_of(folder: Folder, size: Size, numbers: Mapping[str, int]) -> Places:
    names = [f"node-{number}" for number in range(1, size.nodes + 1)]
    return Places(
        nodes=tuple(Node(name, f"http://{HOST}:{numbers[name]}") for name in names),
        zookeeper=f"{HOST}:{numbers['zookeeper']}{ROOT}",
        kafka=tuple(f"{HOST}:{numbers[name]}" for name in cluster_names(size.kafka)),
        postgres=postgres.uri(folder, numbers["postgres"]),
    )


@dataclass(frozen=True, slots=True)
class Tools:
    """What the services on Java run with."""

    java: Java
    kafka_jars: Path
    unprepared: tuple[str, ...] = ()
    """Those whose classes are prepared before they start for the first time."""


def specs_of(folder: Folder, options: Options, places: Places, numbers: Mapping[str, int], tools: Tools) -> tuple[Spec, ...]:
    java = tools.java
    clusters = [
        kafka.kafka(folder, java, tools.kafka_jars, name, kafka.Listeners(numbers[name], numbers[f"{name}-controller"]))
        for name in cluster_names(len(places.kafka))
    ]
    services = [
        zookeeper.zookeeper(folder, java, numbers["zookeeper"]),
        *clusters,
        postgres.postgres(folder, numbers["postgres"]),
    ]
    if options.migrate:
        services.append(nodes.migration(folder, places))
    needed = tuple(spec.name for spec in services)
    specs = (
        *services,
        *(nodes.node(folder, places, which, needed, options.node_env) for which in places.nodes),
        *(timers.timers(folder, places, java, needed, options.node_env) if options.timers and options.migrate else ()),
    )
    return _with_trials(folder, specs, tools.unprepared)


def _with_trials(folder: Folder, specs: tuple[Spec, ...], unprepared: tuple[str, ...]) -> tuple[Spec, ...]:
    """Whoever is late anyway is made even later by its trial, and nobody else is."""
    trials = {
        kind: trial_spec(folder, kind, late=late)
        for kind, late in {s.kind: s.late for s in specs}.items()
        if kind in unprepared
    }
    return (
        *trials.values(),
        *(replace(s, depends=(*s.depends, trials[s.kind].name)) if s.kind in trials else s for s in specs),
    )


def levels(specs: tuple[Spec, ...]) -> dict[str, int]:
    """How far each process stands from those that depend on nothing."""
    by_name = {spec.name: spec for spec in specs}

    def level(name: str) -> int:
        return 1 + max((level(other) for other in by_name[name].depends), default=-1)

    return {name: level(name) for name in by_name}
