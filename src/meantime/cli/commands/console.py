"""`meantime console`: the console in a browser, of the nodes of this machine or of a cluster elsewhere."""

import asyncio
import contextlib
import signal
import webbrowser
from typing import Annotated

import typer

from meantime.cli.output import print_json, say
from meantime.cli.session import Ca, Data, Insecure, Json, Url


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel="Run")(console)


def console(
    open: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve it here on this port, for a cluster elsewhere; 0 takes a free one."),
    ] = None,
    url: Url = None,
    ca: Ca = None,
    insecure: Insecure = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Say where the console is, and open it; for a cluster elsewhere, serve it on this machine until Ctrl-C.

    Nodes serve the console themselves, under /console. For nodes of another machine (--url), or with --port, it is served
    here, on 127.0.0.1, and its calls are passed on to them: the browser logs in with a key as at a node.

    Example: meantime console --open

    Example: meantime console --url https://meantime.example:8443 --open
    """
    from meantime.sdk.node_urls import is_local, node_urls
    from meantime.sdk.trust import check_key_is_safe, may_be_insecure
    from meantime.stack.discovery import discover

    nodes = node_urls(url or list(discover(data).urls))
    if port is None and is_local(nodes[0]):
        _announce(f"{nodes[0]}/console/", json, open)
        return
    if not may_be_insecure(insecure):
        check_key_is_safe(nodes)
    asyncio.run(_serve(nodes, port or 0, ca, json, open))


def _announce(address: str, json: bool, open: bool) -> None:
    print_json({"console": address}) if json else typer.echo(address)
    if open and not webbrowser.open(address):
        say("no browser could be started: open the address yourself")


async def _serve(nodes: tuple[str, ...], port: int, ca: str | None, json: bool, open: bool) -> None:
    import httpx

    from meantime.api.console.proxy import ConsoleProxy
    from meantime.api.http.limits import HttpLimits
    from meantime.api.http.server import HttpServer
    from meantime.console.files import ConsoleFiles
    from meantime.processes.node import bind
    from meantime.sdk.trust import trusted

    stop, listening = asyncio.Event(), bind("127.0.0.1", port)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    timeout = httpx.Timeout(60.0, connect=5.0, read=None)
    async with contextlib.AsyncExitStack() as opened:
        client = await opened.enter_async_context(httpx.AsyncClient(verify=trusted(True, ca), timeout=timeout))
        server = HttpServer(ConsoleProxy(ConsoleFiles(), client, nodes), HttpLimits())
        await server.start(listening)
        opened.push_async_callback(server.stop)
        _announce(f"http://127.0.0.1:{listening.getsockname()[1]}/console/", json, open)
        await stop.wait()
