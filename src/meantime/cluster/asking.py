"""How a node asks another what time it is: the short way where nothing lies between them, else through httpx.

Every node asks every other twice a second. By httpx that would be most of what a node does that has nothing to do.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from meantime.cluster.options import ClusterOptions
from meantime.sdk.core import Request
from meantime.sdk.http.connection import Wires, direct


@asynccontextmanager
async def open_asking(options: ClusterOptions) -> AsyncIterator["Asking"]:
    asking = Asking(options)
    try:
        yield asking
    finally:
        await asking.close()


class Asking:
    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._wires = Wires()
        self._http: httpx.AsyncClient | None = None

    async def clock_of(self, url: str) -> bytes:
        """The answer to `GET /clock`; whatever comes instead of one in time is raised."""
        client = None if direct(url) else self._client()
        async with asyncio.timeout(self._options.answer_within):
            return await (_ask_at_length(client, f"{url}/clock") if client else self._ask_shortly(f"{url}/clock"))

    async def close(self) -> None:
        self._wires.close()
        if self._http is not None:
            await self._http.aclose()

    def _client(self) -> httpx.AsyncClient:
        """Not before it is needed: what TLS trusts takes long to load."""
        if self._http is None:
            self._http = httpx.AsyncClient(timeout=self._options.answer_within, verify=self._options.tls)
        return self._http

    async def _ask_shortly(self, url: str) -> bytes:
        answer = await self._wires.request(Request("GET", url, {}, None, self._options.answer_within))
        if answer.status != httpx.codes.OK:
            raise httpx.RemoteProtocolError(f"it answers with {answer.status}")
        return answer.content


async def _ask_at_length(client: httpx.AsyncClient, url: str) -> bytes:
    response = await client.get(url)
    return response.raise_for_status().content
