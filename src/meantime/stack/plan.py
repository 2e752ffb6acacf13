"""Which processes a stack has, on which ports, and who waits for whom.

                  jars-kafka
                      │
    zookeeper   kafka-1 … kafka-K   postgres
         └────────────┴─────┬──────────┤
                            │       migrate
                            └──► node-1 … node-N ──► oscillators, dispatcher, ledger ──┐
                                                            jars-spark ────────────────┴──► futures ──► class-archives

With replicas each of the three services is three processes (`zookeeper-1` …, `kafka-1-1` …, `postgres-1` …), and the
PostgreSQL members wait for ZooKeeper. What is fetched or made once for all stacks of this user (`jars-…`,
`class-archives`) is a process, too, while it is missing. A new kind of process is one more `Spec` in `specs_of`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from meantime.errors import StackError
from meantime.stack import ports
from meantime.stack.class_archives import archives_spec, missing_archives
from meantime.stack.folder import Folder, StackState
from meantime.stack.java.jars import are_missing, fetch_spec
from meantime.stack.java.runtime import Java
from meantime.stack.model import HOST, ROOT, NodeAddress, Places, Spec, StackOptions
from meantime.stack.services import kafka, nodes, patroni, postgres, timers, zookeeper

REPLICAS = (1, 3)
"""Two cannot outvote each other, and more than three make one machine no safer."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    kafka: int
    replicas: int = 1


def size_of(options: StackOptions, state: StackState) -> Size:
    size = Size(
        nodes=state.nodes if options.nodes is None else options.nodes,
        kafka=state.kafka if options.kafka is None else options.kafka,
        replicas=state.replicas if options.replicas is None else options.replicas,
    )
    if size.kafka < 1 or size.nodes < 0:
        raise StackError("a stack has at least one Kafka and no fewer than 0 nodes: change --kafka or --nodes")
    if size.replicas not in REPLICAS:
        raise StackError(f"a stack has 1 or 3 replicas of each service, not {size.replicas}: change --replicas")
    if state.places is not None and size.replicas != state.replicas:
        raise StackError(
            f"the stack in {options.data} was made with --replicas {state.replicas}, and its data stay that way: "
            f"start it without --replicas, or choose another directory with --data"
        )
    return size


def ports_of(size: Size, options: StackOptions, state: StackState) -> dict[str, int]:
    """All ports, remembered ones first; those of nodes and brokers that do not run this time stay reserved."""
    brokers = [broker for cluster in cluster_names(size.kafka) for broker in members(cluster, size.replicas)]
    servers, databases = members("zookeeper", size.replicas), members("postgres", size.replicas)
    services = [*servers, *databases, *brokers, *(f"{name}-controller" for name in brokers)]
    if size.replicas > 1:
        services += [f"{name}-{what}" for name in servers for what in ("peer", "election")]
        services += [f"{name}-agent" for name in databases]
    for_services = ports.assign(state.ports, services)
    for_nodes = ports.assign_nodes({**state.ports, **for_services}, size.nodes, options.port)
    return {**state.ports, **for_services, **for_nodes}


def cluster_names(count: int) -> list[str]:
    return [f"kafka-{number}" for number in range(1, count + 1)]


def members(service: str, replicas: int) -> list[str]:
    """The processes of a service."""
    return [service] if replicas == 1 else [f"{service}-{number}" for number in range(1, replicas + 1)]


def places_of(
    folder: Folder, size: Size, numbers: Mapping[str, int], node_hosts: Mapping[str, str] = MappingProxyType({})
) -> Places:
    names = [f"node-{number}" for number in range(1, size.nodes + 1)]

    def hosts(service: str) -> str:
        return ",".join(f"{HOST}:{numbers[name]}" for name in members(service, size.replicas))

    return Places(
        nodes=tuple(NodeAddress(name, f"http://{node_hosts.get(name, HOST)}:{numbers[name]}") for name in names),
        zookeeper=f"{hosts('zookeeper')}{ROOT}",
        kafka=tuple(map(hosts, cluster_names(size.kafka))),
        postgres=postgres.uri(folder, *(numbers[name] for name in members("postgres", size.replicas))),
    )


def specs_of(
    folder: Folder, options: StackOptions, places: Places, numbers: Mapping[str, int], java: Java
) -> tuple[Spec, ...]:
    services = _services(folder, options, places, numbers, java)
    needed = tuple(spec.name for spec in services)
    specs = [*services, *(nodes.node(folder, places, which, needed, options.node_env) for which in places.nodes)]
    if options.timers and options.migrate:
        # They take their time from nodes, and on a small machine would only keep them from starting.
        first = () if options.wait_for_late else tuple(which.id for which in places.nodes)
        specs += timers.timers(folder, places, (*needed, *first), options.node_env)
    specs = [_as_asked(spec, options) for spec in specs]
    specs = _with_jars(folder, specs)
    if not options.wait_for_late:
        specs = _late_ones_last(specs)
    if options.class_archives and missing_archives(java, {spec.kind for spec in specs}):
        specs.append(archives_spec(folder, java, specs))
    return tuple(specs)


def _as_asked(spec: Spec, options: StackOptions) -> Spec:
    env = {**spec.env, **options.process_env.get(spec.name, {})}
    return replace(spec, env=env, command=(*options.process_prefix.get(spec.name, ()), *spec.command))


def _services(folder: Folder, options: StackOptions, places: Places, numbers: Mapping[str, int], java: Java) -> list[Spec]:
    replicas = options.replicas or 1
    zookeepers = _zookeepers(folder, numbers, java, replicas)
    clusters = cluster_names(len(places.kafka))
    brokers = [spec for name in clusters for spec in _brokers(folder, options, name, numbers, java)]
    databases = _databases(folder, places, numbers, replicas)
    services = [*zookeepers, *brokers, *databases]
    if options.migrate:
        names = tuple(spec.name for spec in databases)
        primary = partial(patroni.until_writable, places.postgres) if replicas > 1 else None
        services.append(nodes.migration(folder, places, options.node_env, names, primary))
    return services


def _zookeepers(folder: Folder, numbers: Mapping[str, int], java: Java, replicas: int) -> list[Spec]:
    ensemble = [
        zookeeper.Server(name, numbers[name], numbers.get(f"{name}-peer", 0), numbers.get(f"{name}-election", 0))
        for name in members("zookeeper", replicas)
    ]
    return [zookeeper.zookeeper(folder, java, server, ensemble if replicas > 1 else ()) for server in ensemble]


def _brokers(folder: Folder, options: StackOptions, cluster: str, numbers: Mapping[str, int], java: Java) -> list[Spec]:
    names = members(cluster, options.replicas or 1)
    brokers = {name: kafka.Listeners(numbers[name], numbers[f"{name}-controller"]) for name in names}
    together = kafka.Cluster(durable=bool(options.durable))
    if len(brokers) > 1:
        together = replace(together, id=kafka.cluster_id(folder, cluster), brokers=tuple(brokers.values()))
    return [kafka.kafka(folder, java, name, ports, together) for name, ports in brokers.items()]


def _databases(folder: Folder, places: Places, numbers: Mapping[str, int], replicas: int) -> list[Spec]:
    if replicas == 1:
        return [postgres.postgres(folder, numbers["postgres"])]
    everyone = [
        patroni.PostgresMember(name, numbers[name], numbers[f"{name}-agent"]) for name in members("postgres", replicas)
    ]
    servers, depends = places.zookeeper.partition("/")[0], tuple(members("zookeeper", replicas))
    return [patroni.member(folder, one, everyone, servers, depends) for one in everyone]


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
