"""A worker starts with one node and learns the others: it speaks to each as that one's own address says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from tls_nodes import AnsweringNode, Certificate, answering_node, make_certificate
from zookeeper_tools import eventually

from meantime import App
from meantime.tasks import running
from meantime.workers.runner import WorkerOptions, open_worker

KEY = "mt_secret"
WITHIN = 60.0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def worker_of(zookeeper: str, *nodes: AnsweringNode) -> AsyncIterator[Callable[[], tuple[str, ...]]]:
    """A worker at work; what is yielded tells the nodes that it knows."""
    name = f"app-{uuid4().hex[:8]}"
    app = App(name)
    app.job("orders")(lambda message, context: None)
    options = WorkerOptions(tuple(node.url for node in nodes), zookeeper, KEY, namespace=f"/{name}")
    async with open_worker(app, options, asyncio.Event()) as worker, running(worker.run(), name="worker"):
        yield lambda: worker._client.core.urls


async def test_a_worker_speaks_tls_to_a_learned_tls_node_and_verifies_it(services, certificate, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.cert))
    async with answering_node() as given, answering_node(certificate) as learned:
        given.knows = [learned.url]
        async with worker_of(services.zookeeper, given) as known, asyncio.timeout(WITHIN):
            await eventually(lambda: learned.url in known(), within=WITHIN)
            given.die()
            await learned.asked.wait()
        assert learned.heard.startswith(b"GET /")


async def test_a_worker_sends_its_key_to_no_learned_node_in_the_clear(services, certificate) -> None:
    """The last node that it learns is the proof that it has seen the others."""
    async with (
        answering_node() as given,
        answering_node(host="0.0.0.0") as plain,
        answering_node(certificate) as untrusted,
        answering_node() as neighbour,
    ):
        given.knows = [plain.url_beyond_loopback, untrusted.url, neighbour.url]
        async with worker_of(services.zookeeper, given) as known, asyncio.timeout(WITHIN):
            await eventually(lambda: neighbour.url in known(), within=WITHIN)
            given.die()
            await neighbour.asked.wait()
        assert KEY.encode() in neighbour.heard
        assert plain.heard == untrusted.heard == b""
