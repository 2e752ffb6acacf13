"""The files of the console on a real socket: what is where, how long it may be kept, and that no path leads out."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from http_server import HOST, HttpServer, open_http_server

from meantime.api.console.files import console_routes
from meantime.api.http.browsers import POLICY
from meantime.api.table import TABLE
from meantime.console.files import ConsoleFiles

INDEX = '<!doctype html><script type="module" src="./assets/app-1a2b.js"></script><link href="./assets/app-1a2b.css">'
SCRIPT = "console.log(1);\n" * 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("not for browsers")
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text(INDEX)
    (static / "assets" / "app-1a2b.js").write_text(SCRIPT)
    (static / "favicon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    return static


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[HttpServer]:
    async with open_http_server([*TABLE, *console_routes(ConsoleFiles(folder))]) as server:
        yield server


@pytest.fixture
async def client(server: HttpServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url) as client:
        yield client


async def test_every_address_of_the_application_is_the_application(client: httpx.AsyncClient) -> None:
    """It names its parts relative to the address, so that it works below any prefix."""
    pages = {path: await client.get(path) for path in ("/console/", "/console/topics", "/console/topics/billing.retry")}
    assert {page.status_code for page in pages.values()} == {200}
    assert {page.headers["content-type"] for page in pages.values()} == {"text/html; charset=utf-8"}
    assert 'src="./assets/app-1a2b.js"' in pages["/console/"].text
    assert 'src="./assets/app-1a2b.js"' in pages["/console/topics"].text
    assert 'src="../assets/app-1a2b.js"' in pages["/console/topics/billing.retry"].text
    assert {page.headers["cache-control"] for page in pages.values()} == {"no-cache"}
    assert (await client.get("/console/login")).text == pages["/console/"].text  # a POST is the API's


async def test_parts_may_be_kept_for_ever_and_come_packed(client: httpx.AsyncClient) -> None:
    packed = await client.get("/console/assets/app-1a2b.js")
    plain = await client.get("/console/assets/app-1a2b.js", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text == SCRIPT
    assert int(packed.headers["content-length"]) < len(SCRIPT) / 10
    assert packed.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in packed.headers["cache-control"]
    again = await client.get("/console/assets/app-1a2b.js", headers={"If-None-Match": packed.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_what_the_build_has_packed_is_sent_as_it_is(folder: Path, client: httpx.AsyncClient) -> None:
    packed = gzip.compress(SCRIPT.encode(), compresslevel=1)
    (folder / "assets" / "app-1a2b.js.gz").write_bytes(packed)
    answer = await client.get("/console/assets/app-1a2b.js")
    assert int(answer.headers["content-length"]) == len(packed)
    assert (await client.get("/console/assets/app-1a2b.js.gz")).status_code == 404


async def test_the_console_and_the_root_lead_to_the_application(client: httpx.AsyncClient) -> None:
    for path, headers in (("/console", {}), ("/", {"Accept": "text/html,application/xhtml+xml"})):
        answer = await client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["location"]) == (307, "console/")
    assert (await client.get("/", headers={"Accept": "application/json"})).status_code == 404


async def test_every_answer_of_the_console_says_what_a_page_may_load(client: httpx.AsyncClient) -> None:
    paths = ("/console", "/console/", "/console/x", "/console/assets/none.js", "/console/assets/app-1a2b.js")
    answers = [await client.get(path) for path in paths]
    answers.append(await client.post("/console/x"))
    answers.append(await client.post("/console/login", content=b"{"))
    assert [answer.status_code for answer in answers] == [307, 200, 200, 404, 200, 405, 400]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert "content-security-policy" not in (await client.get("/health")).headers


@pytest.mark.parametrize(
    "path",
    [
        "/console/../secret.txt",
        "/console/..%2fsecret.txt",
        "/console/%2e%2e/secret.txt",
        "/console/assets/../../secret.txt",
        "/console/assets/..%2f..%2fsecret.txt",
        "/console//etc/passwd",
        "/console/assets//etc/passwd",
        "/console/..\\secret.txt",
        "/consolex",
    ],
)
async def test_no_path_leads_out_of_the_console(path: str, server: HttpServer) -> None:
    """As it is: a client would tidy it up before it is sent."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert b"not for browsers" not in answer
    assert b"root:" not in answer
    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 404"))
    assert answer.startswith(b"HTTP/1.1 404") or b"doctype html" in answer


async def test_without_a_build_a_page_says_how_to_get_one_and_with_one_it_is_there_at_once(
    tmp_path: Path, folder: Path
) -> None:
    missing = tmp_path / "missing"
    async with (
        open_http_server([*TABLE, *console_routes(ConsoleFiles(missing))]) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        page = await client.get("/console/topics")
        assert (page.status_code, page.headers["content-security-policy"]) == (503, POLICY)
        assert "make console" in page.text
        await asyncio.to_thread(folder.rename, missing)
        assert "app-1a2b.js" in (await client.get("/console/topics")).text
