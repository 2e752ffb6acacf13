"""Nodes that a client has learned from another: each is spoken to as its own address says."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tls_nodes import Certificate, answering_node, make_certificate, make_signed_certificate

from meantime import AsyncClient, Client, Retries, Unreachable
from meantime.sdk.calls.call import Call, nothing

KEY = "mt_secret"
STREAM = Call("GET", "/stream", nothing)
QUICK = Retries(retry_for=0.5, reconnect_for=0.5, first_pause=0.05, longest_pause=0.1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def call(url: str, between: Callable[[], None], **options: object) -> None:
    """Learn the other nodes; then the first one is gone, and something is asked."""
    async with AsyncClient(url, retries=QUICK, **options) as client:
        await client.learn_nodes()
        between()
        await client.nodes()


async def call_and_block(url: str, between: Callable[[], None], **options: object) -> None:
    with Client(url, retries=QUICK, **options) as client:
        await asyncio.to_thread(client.learn_nodes)
        between()
        await asyncio.to_thread(client.nodes)


async def stream(url: str, between: Callable[[], None], **options: object) -> None:
    async with AsyncClient(url, retries=QUICK, **options) as client:
        await client.learn_nodes()
        between()
        async with client.stream(STREAM, silence_for=5) as opened:
            assert b"".join([chunk async for chunk in opened.chunks])


Way = Callable[..., Awaitable[None]]
ways = pytest.mark.parametrize("way", [call, call_and_block, stream])


@ways
async def test_a_learned_tls_node_is_spoken_to_by_tls(way: Way, certificate: Certificate) -> None:
    async with answering_node() as plain, answering_node(certificate) as secure:
        plain.knows = [secure.url]
        await way(plain.url, plain.die, key=KEY, verify=certificate.trusting())
        assert secure.heard.startswith(b"GET /")
        assert KEY.encode() in secure.heard


@ways
@pytest.mark.parametrize("by", ["option", "environment"])
async def test_nodes_of_a_private_authority_are_trusted_where_it_is_named(
    way: Way, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed, authority = make_signed_certificate(tmp_path)
    named = {"ca": str(authority)} if by == "option" else {}
    if by == "environment":
        monkeypatch.setenv("MEANTIME_CA", str(authority))
    async with answering_node(signed) as given, answering_node(signed) as learned:
        given.knows = [learned.url]
        await way(given.url, given.die, key=KEY, **named)
        assert KEY.encode() in learned.heard


@ways
async def test_a_learned_tls_node_with_a_certificate_that_nobody_trusts_gets_nothing(way: Way, certificate) -> None:
    async with answering_node() as plain, answering_node(certificate) as secure:
        plain.knows = [secure.url]
        with pytest.raises(Unreachable):
            await way(plain.url, plain.die, key=KEY)
        assert secure.heard == b""


@ways
async def test_a_key_is_never_sent_in_the_clear_to_a_learned_node(way: Way) -> None:
    async with answering_node() as given, answering_node(host="0.0.0.0") as learned:
        given.knows = [learned.url_beyond_loopback]
        with pytest.raises(Unreachable):
            await way(given.url, given.die, key=KEY)
        assert learned.heard == b""


@ways
async def test_a_client_of_a_tls_node_does_not_go_on_in_the_clear(way: Way, certificate: Certificate) -> None:
    async with answering_node(certificate) as given, answering_node(host="0.0.0.0") as learned:
        given.knows = [learned.url_beyond_loopback]
        with pytest.raises(Unreachable):
            await way(given.url, given.die, verify=certificate.trusting())
        assert learned.heard == b""


@ways
async def test_without_a_key_a_learned_plain_node_is_asked(way: Way) -> None:
    async with answering_node() as given, answering_node(host="0.0.0.0") as learned:
        given.knows = [learned.url_beyond_loopback]
        await way(given.url, given.die)
        assert learned.heard.startswith(b"GET /")


@ways
async def test_nodes_of_both_kinds_that_were_given_are_each_spoken_to_in_their_own_way(way: Way, certificate) -> None:
    async with answering_node() as plain, answering_node(certificate) as secure:
        await way(f"{plain.url},{secure.url}", plain.die, verify=certificate.trusting())
        assert plain.heard.startswith(b"GET /nodes")
        assert secure.heard.startswith(b"GET /")
