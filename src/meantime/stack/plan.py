"""Which processes a stack has, on which ports, and who waits for whom.

                  jars-kafka
                      │
    zookeeper   kafka-1 … kafka-K   postgres
         └────────────┴─────┬──────────┤
                            │       migrate
                            └──► node-1 … node-N, oscillators, dispatcher, ledger ──┐
                                                            jars-spark ─────────────┴──► futures ──► class-archives

What is fetched or made once for all stacks of this user (`jars-…`, `class-archives`) is a process, too, while it is missing.
A new kind of process is one more `Spec` in `specs_of`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meantime.errors import StackError
from meantime.stack import ports
from meantime.stack.class_archives import archives_spec, missing_archives
from meantime.stack.folder import Folder, StackState
from meantime.stack.java.jars import are_missing, fetch_spec
from meantime.stack.java.runtime import Java
from meantime.stack.model import HOST, ROOT, NodeAddress, Places, Spec, StackOptions
from meantime.stack.services import kafka, nodes, postgres, timers, zookeeper


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    kafka: int


def size_of(options: StackOptions, state: StackState) -> Size:
    size = Size(
        nodes=state.nodes if options.nodes is None else options.nodes,
        kafka=state.kafka if options.kafka is None else options.kafka,
    )
    if size.kafka < 1 or size.nodes < 0:
        raise StackError("a stack has at least one Kafka and no fewer than 0 nodes: change --kafka or --nodes")
    return size


def ports_of(size: Size, options: StackOptions, state: StackState) -> dict[str, int]:
    """All ports, remembered ones first; those of nodes and brokers that do not run this time stay reserved."""
    clusters = cluster_names(size.kafka)
    services = ["zookeeper", "postgres", *clusters, *(f"{name}-controller" for name in clusters)]
    for_services = ports.assign(state.ports, services)
    for_nodes = ports.assign_nodes({**state.ports, **for_services}, size.nodes, options.port)
    return {**state.ports, **for_services, **for_nodes}


def cluster_names(count: int) -> list[str]:
    return [f"kafka-{number}" for number in range(1, count + 1)]


def places_of(folder: Folder, size: Size, numbers: Mapping[str, int]) -> Places:
    names = [f"node-{number}" for number in range(1, size.nodes + 1)]
    return Places(
        nodes=tuple(NodeAddress(name, f"http://{HOST}:{numbers[name]}") for name in names),
        zookeeper=f"{HOST}:{numbers['zookeeper']}{ROOT}",
        kafka=tuple(f"{HOST}:{numbers[name]}" for name in cluster_names(size.kafka)),
        postgres=postgres.uri(folder, numbers["postgres"]),
    )


def specs_of(
    folder: Folder, options: StackOptions, places: Places, numbers: Mapping[str, int], java: Java
) -> tuple[Spec, ...]:
    services = _services(folder, options, places, numbers, java)
    needed = tuple(spec.name for spec in services)
    specs = [*services, *(nodes.node(folder, places, which, needed, options.node_env) for which in places.nodes)]
    if options.timers and options.migrate:
        specs += timers.timers(folder, places, needed, options.node_env)
    specs = _with_jars(folder, specs)
    if not options.wait_for_late:
        specs = _late_ones_last(specs)
    if options.class_archives and missing_archives(java, {spec.kind for spec in specs}):
        specs.append(archives_spec(folder, java, specs))
    return tuple(specs)


def _services(folder: Folder, options: StackOptions, places: Places, numbers: Mapping[str, int], java: Java) -> list[Spec]:
    clusters = [
        kafka.kafka(folder, java, name, kafka.Listeners(numbers[name], numbers[f"{name}-controller"]))
        for name in cluster_names(len(places.kafka))
    ]
    services = [
        zookeeper.zookeeper(folder, java, numbers["zookeeper"]),
        *clusters,
        postgres.postgres(folder, numbers["postgres"]),
    ]
    if options.migrate:
        services.append(nodes.migration(folder, places, options.node_env))
    return services


def _with_jars(folder: Folder, specs: list[Spec]) -> list[Spec]:
    """Jars that are missing are fetched while others start; only those who run on them wait."""
    users = {"kafka": "kafka", "futures": "spark"}
    late = {users[spec.kind]: spec.late for spec in specs if spec.kind in users}
    fetches = {conf: fetch_spec(folder.logs, conf, late=late[conf]) for conf in late if are_missing(conf)}

    def waits(spec: Spec) -> Spec:
        fetch = fetches.get(users.get(spec.kind, ""))
        return replace(spec, depends=(*spec.depends, fetch.name)) if fetch else spec

    return [*fetches.values(), *map(waits, specs)]


def _late_ones_last(specs: list[Spec]) -> list[Spec]:
    """Spark takes a whole processor to start, so it starts when the others are ready."""
    others = tuple(spec.name for spec in specs if not spec.late)

    def waits(spec: Spec) -> Spec:
        more = () if spec.once or not spec.late else (name for name in others if name not in spec.depends)
        return replace(spec, depends=(*spec.depends, *more))

    return list(map(waits, specs))


def levels(specs: tuple[Spec, ...]) -> dict[str, int]:
    """How far each process stands from those that depend on nothing."""
    by_name = {spec.name: spec for spec in specs}

    def level(name: str) -> int:
        return 1 + max((level(other) for other in by_name[name].depends), default=-1)

    return {name: level(name) for name in by_name}
