"""The composition root: the one place where the parts of a node meet.

Parts are opened in the order in which they need each other and closed in reverse. Nothing here waits for ZooKeeper,
Kafka or PostgreSQL: a node comes up without them, says in `/ready` what it misses, and mends itself.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog
import uvloop

from meantime import __version__, logs
from meantime.access.keys import Authenticator, Keys
from meantime.access.sessions import PURGE_EVERY, ConsoleSessions
from meantime.api.app import create_edge
from meantime.api.edge import Edge
from meantime.api.http.limits import HttpLimits
from meantime.api.http.server import HttpServer
from meantime.api.http.tls import TlsFiles
from meantime.api.meters import REFUSALS
from meantime.api.services import Services
from meantime.audit.audit_store import PURGE_EVERY as AUDIT_PURGE_EVERY
from meantime.audit.audit_store import AuditLog
from meantime.clock import SystemClock
from meantime.cluster.ntp import open_local_clock
from meantime.cluster.view import ClusterView, open_cluster
from meantime.config import Config
from meantime.console.live_state import ConsoleParts
from meantime.coordination.membership import Member
from meantime.coordination.session import open_session
from meantime.database.listener import open_listener
from meantime.database.pool import open_database
from meantime.errors import Invalid
from meantime.metrics import tell_build
from meantime.processes.console import open_console_feed
from meantime.processes.event_checks import EventChecks
from meantime.processes.measures import measures_of
from meantime.processes.options import cluster_options, service_clocks, session_options
from meantime.processes.schedule_targets import TimersOfSchedules, TopicsOfSchedules
from meantime.processes.storages import storages_of, timers_storage
from meantime.runtime import spare_collector
from meantime.schedules.schedules import FiringTargets, open_schedules
from meantime.streams.catalog.adopted_topics import AdoptedTopics
from meantime.streams.catalog.store import Store
from meantime.streams.streams import StreamsOptions, open_streams
from meantime.supervision import Duty, kept_running, on_duty
from meantime.timers.options import timers_options
from meantime.timers.timers import open_timers
from meantime.topics.topics import open_topics
from meantime.workers.inspection import open_apps

log = structlog.get_logger(__name__)


def run_node(config: Config) -> None:
    """Run a node until SIGTERM or SIGINT; what is in flight is finished first."""
    logs.configure(config.log_level, config.log_format, node=config.id)
    uvloop.run(_run(config))


async def _run(config: Config) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_node(config) as node:
        # What a node is made of lives as long as it does: looking through all of it again and again costs pauses.
        spare_collector(10_000, 20, 50)
        await node.serve_until(stop)
    log.info("stopped")


@asynccontextmanager
async def open_node(config: Config) -> AsyncIterator["Node"]:
    tell_build(__version__)
    listening = bind(config.host, config.port)
    url = url_of(config, listening)
    system = SystemClock(config.clock_skew_ms, config.clock_skew_for)
    async with AsyncExitStack() as opened:
        opened.callback(listening.close)
        local = await opened.enter_async_context(open_local_clock(config.clock_source, system))
        database = await opened.enter_async_context(open_database(config.postgres, size=config.postgres_pool))
        listener = await opened.enter_async_context(open_listener(config.postgres))
        session = await opened.enter_async_context(open_session(session_options(config)))
        me = Member(config.id, url, __version__, started_at_ms=local.now_ms())
        clocks = service_clocks(database, session)
        cluster = await opened.enter_async_context(
            open_cluster(me, session, local, database.state, cluster_options(config), services=clocks)
        )
        streams = await opened.enter_async_context(
            open_streams(database, listener, session, cluster.clock, _streams_options(config, cluster))
        )
        topics = await opened.enter_async_context(
            open_topics(database.uri, listener, cluster.clock, cluster.health.require_healthy, config.id)
        )
        adopted = AdoptedTopics(Store(database), listener, config.timers_storage)
        await opened.enter_async_context(kept_running(adopted.run, "adopted topics"))
        storage, trusted = partial(timers_storage, config, database), cluster.health.require_healthy
        events = EventChecks(streams.publisher, streams.catalog)
        asked = timers_options(config, storage, trusted, lambda: adopted.names, events.fault)
        timers = await opened.enter_async_context(open_timers(database, session, cluster.clock, asked))
        targets = FiringTargets(TopicsOfSchedules(topics), TimersOfSchedules(timers.requests, streams.catalog))
        schedules = await opened.enter_async_context(
            open_schedules(database, listener, session, cluster.clock, targets, trusted, config.id)
        )
        apps = await opened.enter_async_context(open_apps(session, config.apps_namespace))
        measures = measures_of(streams, topics, schedules, apps)
        opened.push_async_callback(measures.end)
        authenticator = Authenticator(database, listener, cluster.clock) if config.auth else None
        sessions = None
        if authenticator is not None:
            await opened.enter_async_context(kept_running(authenticator.run, "revoked keys"))
            sessions = ConsoleSessions(database, authenticator, cluster.clock, config.console_session_for)
            await opened.enter_async_context(on_duty([Duty("console sessions", sessions.purge, PURGE_EVERY)]))
        parts = ConsoleParts(config.id, cluster, streams, topics, timers, apps)
        feed = await opened.enter_async_context(open_console_feed(parts, database, listener))
        audit = AuditLog(database, cluster.clock, config.audit_keep_for)
        await opened.enter_async_context(on_duty([Duty("audit log", audit.purge, AUDIT_PURGE_EVERY)]))
        services = Services(
            cluster, streams, topics, timers, schedules, apps, measures, config.id, sessions, feed, Keys(database), audit
        )
        opened.callback(REFUSALS.tell_all)
        edge = create_edge(services, cluster.clock, authenticator)
        server = HttpServer(edge, http_limits(config), tls_files(config))
        yield Node(url, edge, server, listening, cluster, config.unix_socket)


@dataclass(frozen=True, slots=True)
class Node:
    url: str
    edge: Edge
    server: HttpServer
    listening: socket.socket
    cluster: ClusterView
    unix_socket: str = ""

    async def serve_until(self, stop: asyncio.Event) -> None:
        await self.server.start(self.listening, self.unix_socket)
        log.info("listening", url=self.url)
        await stop.wait()
        log.info("stopping")
        self.cluster.stop()
        await self.server.stop()


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Invalid(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from error


def url_of(config: Config, listening: socket.socket) -> str:
    if config.public_url:
        return config.public_url.rstrip("/")
    scheme = "https" if config.tls_cert else "http"
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{scheme}://{host}:{listening.getsockname()[1]}"


def http_limits(config: Config) -> HttpLimits:
    return HttpLimits(
        max_header_bytes=config.max_header_bytes,
        max_body_bytes=config.max_body_bytes,
        max_bodies_bytes=config.max_bodies_bytes,
        header_timeout=config.header_timeout,
        body_timeout=config.body_timeout,
        max_connections=config.max_connections,
        stop_timeout=config.stop_timeout,
    )


def tls_files(config: Config) -> TlsFiles | None:
    return TlsFiles(config.tls_cert, config.tls_key, config.tls_ca) if config.tls_cert else None


def _streams_options(config: Config, cluster: ClusterView) -> StreamsOptions:
    return StreamsOptions(
        node_id=config.id,
        storages=storages_of(config),
        needed_storages={config.timers_storage: "where timers live (timers_storage)"},
        publish_wait_for=config.publish_wait_for,
        barrier_for=config.barrier_timeout,
        overtake_after=config.switch_overtake_after,
        min_retention_ms=config.min_retention_ms,
        max_streams=config.max_streams,
        trusted=lambda: cluster.health.healthy,
    )
