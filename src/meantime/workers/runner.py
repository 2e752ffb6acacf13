"""A worker process, put together: session, streams, jobs, retries — from start to hand-over.

SIGTERM, Ctrl-C and `StopWorker` end it in order: jobs in work are finished and recorded, queues are given up, the node is
removed. A second signal ends it at once.
"""

import asyncio
import os
import random
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from meantime import __version__, metrics
from meantime.coordination.session import SessionOptions, open_session
from meantime.errors import Invalid, MeantimeError
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.node_urls import node_urls
from meantime.tasks import running
from meantime.workers.app import App
from meantime.workers.balancing.balancer import Work
from meantime.workers.balancing.claims import QueueClaim
from meantime.workers.balancing.discovery import Discovery
from meantime.workers.balancing.membership import Membership, MembershipOptions
from meantime.workers.layout import NAMESPACE, app_layout, namespace_path
from meantime.workers.meters import QUEUES, follow_lag
from meantime.workers.processing.deployment import Deployment
from meantime.workers.processing.failures import FailedMessages
from meantime.workers.processing.feed import QueueFeeds
from meantime.workers.processing.gate import JobGate
from meantime.workers.processing.job import JobExecution, entered
from meantime.workers.processing.lease_consumer import LeaseConsumer, LeaseTools
from meantime.workers.processing.periodic_topic import PeriodicTopic
from meantime.workers.processing.queue_work import QueueTools, QueueWork
from meantime.workers.processing.retry_topic import RetryTopic
from meantime.workers.processing.threads import Threads
from meantime.workers.store import AppStore

log = structlog.get_logger(__name__)

NODES_EVERY = 30.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`urls` are nodes, any of them; more are learned from the first that answers."""

    urls: tuple[str, ...]
    zookeeper: str
    key: str | None = None
    namespace: str = NAMESPACE
    session_timeout: float = 10.0
    settle_for: float = 1.0
    threads: int = 64
    metrics_port: int | None = None
    digest: str = ""
    """`user:password` for ZooKeeper, if it asks for one."""
    ca: str | None = None
    """PEM file with the authorities that sign the nodes' certificates."""
    insecure: bool | None = None
    """Whether the key may leave this machine without TLS."""

    def session(self) -> SessionOptions:
        user, _, password = self.digest.partition(":")
        return SessionOptions(
            self.zookeeper, timeout=self.session_timeout, digest_user=user or None, digest_password=password or None
        )


async def run_worker(app: App, options: WorkerOptions) -> None:
    """Be a worker of this application until a signal or a job stops it."""
    stop = asyncio.Event()
    _stop_on_signals(stop)
    if options.metrics_port is not None:
        _serve_metrics(options.metrics_port)
    async with open_worker(app, options, stop) as worker:
        await worker.run()
    log.info("stopped", app=app.name)


@asynccontextmanager
async def open_worker(app: App, options: WorkerOptions, stop: asyncio.Event) -> AsyncIterator["Worker"]:
    """Everything that a worker needs, opened in order; the application's context is entered first."""
    threads = Threads(options.threads)
    async with AsyncExitStack() as stack:
        stack.callback(threads.close)
        context = await stack.enter_async_context(entered(app.context))
        urls = node_urls(",".join(options.urls))
        urls = tuple(random.sample(urls, len(urls)))
        client = AsyncClient(urls, options.key, producer_group=app.name, ca=options.ca, insecure=options.insecure)
        client = await stack.enter_async_context(client)
        session = await stack.enter_async_context(open_session(options.session()))
        namespace = namespace_path(session.root, options.namespace)
        yield Worker(
            app, client, AppStore(session, app_layout(namespace, app.name)), options, JobExecution(threads, context), stop
        )


class Worker:
    def __init__(
        self,
        app: App,
        client: AsyncClient,
        store: AppStore,
        options: WorkerOptions,
        execution: JobExecution,
        stop: asyncio.Event,
    ) -> None:
        self._app = app
        self._client = client
        self._store = store
        self._stop = stop
        self._options = options
        self._discovery = Discovery(client, store, {job.event_type: job.start for job in app.jobs.values()})
        terms = MembershipOptions(options.session_timeout, options.settle_for)
        self.membership = Membership(store, terms, self._discovery, self._begin)
        self._gate = JobGate(self.membership.liveness)
        self._feeds = QueueFeeds(client, lambda: self._gate.open)
        failures = FailedMessages(client, app.name)
        self._tools = QueueTools(self._gate, self._feeds, execution, failures, self._stop_worker)
        leases = LeaseTools(client, app, execution, failures, self._gate, self._stop_worker)
        self._retries = LeaseConsumer(leases, RetryTopic(client, app, failures))
        self._firings = LeaseConsumer(leases, PeriodicTopic(app, failures))
        self._deployment = Deployment(client, app, failures)
        self._works: dict[str, QueueWork] = {}
        self._failure: Exception | None = None

    async def run(self) -> None:
        """Until it is stopped and all queues are handed over."""
        consumer_id = _identifier(
            f"{self._app.name}:{socket.gethostname()[:20]}:{os.getpid()}:{random.randrange(1 << 32):08x}"
        )
        duties = {
            "nodes": self._learn_nodes(),
            "discovery": self._discovery.run(),
            "gate": self._gate.run(self._store),
        }
        if self._options.metrics_port is not None:
            duties["lag"] = follow_lag(self._client, self._app.name, self._positions)
        async with AsyncExitStack() as stack:
            for name, duty in duties.items():
                await stack.enter_async_context(running(self._guarded(duty), name=name))
            async with (
                running(self._guarded(self._retries.run(consumer_id)), name="retries"),
                running(self._guarded(self._run_periodic(consumer_id)), name="periodic"),
            ):
                await self.membership.run(self._stop)
            await self._retries.finish()
            await self._firings.finish()
            await self._feeds.close()
        if self._failure:
            raise self._failure

    async def _run_periodic(self, consumer_id: str) -> None:
        await self._deployment.run()
        if self._app.periodic_jobs:
            await self._firings.run(consumer_id)

    async def _guarded(self, duty: Coroutine[Any, Any, None]) -> None:
        """A part that fails stops the worker in order: half a worker is worse than none."""
        try:
            await duty
        except Exception as error:
            self._failure = _only(error)
            log.error("worker_failed", exc_info=None if isinstance(self._failure, MeantimeError) else error)
            self._stop.set()

    def _begin(self, claims: Sequence[QueueClaim], ended: Callable[[], None]) -> list[Work]:
        """Work on these queues; those of one event type share a stream."""
        works = [self._work(claim, ended) for claim in claims]
        self._feeds.open((work.claim.source, work.inbox) for work in works if isinstance(work, QueueWork))
        return works

    def _work(self, claim: QueueClaim, ended: Callable[[], None]) -> Work:
        job = self._app.jobs.get(claim.source.event_type)
        if job is None:
            log.warning("queue_without_job", queue=claim.queue, event_type=claim.source.event_type)
            return DeclinedQueue()
        work = QueueWork(claim, job, self._tools, lambda: self._ended(claim.queue, ended))
        self._works[claim.queue] = work
        QUEUES.set(len(self._works))
        return work

    def _ended(self, queue: str, ended: Callable[[], None]) -> None:
        self._works.pop(queue, None)
        QUEUES.set(len(self._works))
        ended()

    def _positions(self) -> list[QueueClaim]:
        return [work.claim for work in self._works.values()]

    def _stop_worker(self, why: str) -> None:
        log.info("worker_stopped_by_job", reason=why)
        self._stop.set()

    async def _learn_nodes(self) -> None:
        """Streams can go to any node; know them all, so that one of them may die."""
        while True:
            try:
                await self._client.learn_nodes()
            except MeantimeError as error:
                log.debug("nodes_unknown", detail=error.detail)
            await asyncio.sleep(NODES_EVERY)


class DeclinedQueue:
    """A queue that this worker has no job for, because it runs another version of the application perhaps."""

    done = True

    def stop(self) -> None:
        """Nothing is going on."""

    def wake(self) -> None:
        """Nothing is going on."""

    def abandon(self) -> None:
        """Nothing is going on."""


def _only(error: Exception) -> Exception:
    """The one exception of a group of one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _identifier(text: str) -> str:
    return "".join(
        character if character.isascii() and (character.isalnum() or character in "._:@-") else "-" for character in text
    )


def _stop_on_signals(stop: asyncio.Event) -> None:
    def on_signal(number: int) -> None:
        if stop.is_set():
            log.warning("stopping_at_once")
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)


def _serve_metrics(port: int) -> None:
    from prometheus_client import start_http_server

    metrics.tell_build(__version__)
    try:
        start_http_server(port, addr="127.0.0.1", registry=metrics.REGISTRY)
    except OSError as error:
        raise Invalid(
            f"cannot serve metrics on port {port}: {error.strerror}; choose another with --metrics-port"
        ) from error
