"""Nodes that only answer and remember: plain ones and such that speak TLS, on real sockets."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

OPENSSL = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"


@dataclass(frozen=True, slots=True)
class Certificate:
    """One that nobody has signed: who wants to trust it has to be told."""

    cert: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.cert, self.key)
        return context

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.cert)


def make_certificate(folder: Path) -> Certificate:
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    subprocess.run(f"{OPENSSL} -keyout {made.key} -out {made.cert}".split(), check=True, capture_output=True)
    return made


SIGN = "openssl x509 -req -days 2 -CAcreateserial"


def make_signed_certificate(folder: Path) -> tuple[Certificate, Path]:
    """One for 127.0.0.1 that a private CA has signed, and that CA."""
    made, authority, names = Certificate(folder / "node.pem", folder / "node.key"), folder / "ca.pem", folder / "names"
    request, authority_key = folder / "node.csr", folder / "ca.key"
    names.write_text("subjectAltName=IP:127.0.0.1")
    new = "openssl req -newkey rsa:2048 -nodes -subj"
    for command in (
        f"{new} /CN=authority -x509 -days 2 -keyout {authority_key} -out {authority}",
        f"{new} /CN=node -keyout {made.key} -out {request}",
        f"{SIGN} -in {request} -CA {authority} -CAkey {authority_key} -extfile {names} -out {made.cert}",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    return made, authority


@dataclass(slots=True)
class AnsweringNode:
    """Answers `GET /nodes` with what it knows and any other request with `{}`; `heard` are the bytes that came."""

    server: asyncio.Server
    scheme: str
    knows: list[str] = field(default_factory=list)
    heard: bytes = b""
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def url_beyond_loopback(self) -> str:
        """An address that no client may take for one of this machine, and that leads here all the same."""
        return f"{self.scheme}://0.0.0.0:{self.port}"

    def die(self) -> None:
        self.server.close()

    def answer(self) -> bytes:
        nodes = [{"id": f"node-{number}", "url": url} for number, url in enumerate([self.url, *self.knows])]
        body = json.dumps({"nodes": nodes}).encode()
        return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@asynccontextmanager
async def answering_node(certificate: Certificate | None = None, host: str = "127.0.0.1") -> AsyncIterator[AnsweringNode]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                node.heard += data
                node.asked.set()
                if b"\r\n\r\n" in data:
                    writer.write(node.answer())
                    break
        except ConnectionError:
            pass
        writer.close()

    context = certificate.server() if certificate else None
    server = await asyncio.start_server(serve, host, 0, ssl=context)
    node = AnsweringNode(server, "https" if certificate else "http")
    try:
        yield node
    finally:
        server.close()
