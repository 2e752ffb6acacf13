"""`GET /console/…`: the files of the application, and the application itself for every address that it has.

They are no part of the API, so they have no rows in its table.
"""

from collections.abc import Mapping

from meantime.api.call import Answer, HttpCall
from meantime.api.http.browsers import CONSOLE
from meantime.api.routing import Route
from meantime.console.files import ConsoleFiles, StaticFile
from meantime.errors import NotFound

HTML = b"text/html; charset=utf-8"
FOR_EVER = "public, max-age=31536000, immutable"
LOOK_AGAIN = "no-cache"

NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Meantime</title>
<h1>The console is not built</h1>
<p>This node runs from a source tree in which the console has not been built yet. Everything else works.</p>
<p>Build it there with <code>make console</code>, and load this page again. Packages of Meantime carry it with them.</p>
</html>
"""


def console_routes(files: ConsoleFiles) -> list[Route]:
    async def show_file(call: HttpCall[None, None]) -> Answer:
        """A file of the console, or the console itself"""
        path = call.names["path"]
        found = await files.find(path)
        if found is not None:
            return answer(found, call)
        if files.built:
            raise NotFound(f"the console has no file {path!r}")
        return Answer(503, NOT_BUILT, headers={"Cache-Control": "no-store"}, media_type=HTML, refusal="not_built")

    async def show_console(call: HttpCall[None, None]) -> Answer:
        """To the console"""
        return _to("console/")

    async def show_root(call: HttpCall[None, None]) -> Answer:
        """To the console, for browsers"""
        if "text/html" not in (call.header(b"accept") or ""):
            raise NotFound("there is nothing at /; /schema shows what there is")
        return _to("console/")

    answers = {200: str}
    return [
        Route("GET", "/", None, show_root, answers),
        Route("GET", CONSOLE, None, show_console, answers),
        Route("GET", f"{CONSOLE}/{{path*}}", None, show_file, answers),
    ]


def answer(file: StaticFile, call: HttpCall[None, None]) -> Answer:
    status, headers, body = file_headers(file, call.exchange.headers)
    return Answer(status, body, headers=headers, media_type=file.media_type.encode())


def file_headers(file: StaticFile, asked: Mapping[bytes, bytes]) -> tuple[int, dict[str, str], bytes]:
    """How a file goes out to who asks in this way: status, headers, body."""
    tag = f'"{file.tag}"'
    headers = {"Cache-Control": FOR_EVER if file.immutable else LOOK_AGAIN, "ETag": tag, "Vary": "Accept-Encoding"}
    if tag.encode() in asked.get(b"if-none-match", b""):
        return 304, headers, b""
    if file.packed is not None and b"gzip" in asked.get(b"accept-encoding", b""):
        return 200, headers | {"Content-Encoding": "gzip"}, file.packed
    return 200, headers, file.body


def _to(path: str) -> Answer:
    """Relative, so that it holds below a prefix."""
    return Answer(307, headers={"Location": path, "Cache-Control": "no-store"})
