"""A caller with the addresses of all nodes: it stays with one as long as that one answers, and then goes to the next."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import Any, Self

import httpx

ANSWER_WITHIN = 10.0
TROUBLE = (httpx.HTTPError, OSError)


class Caller:
    def __init__(self, urls: Sequence[str], rng: random.Random, headers: dict[str, str] | None = None) -> None:
        self._urls = itertools.cycle(rng.sample(urls, len(urls)))
        self._url = next(self._urls)
        timeout = httpx.Timeout(ANSWER_WITHIN, connect=1.0)
        self.http = httpx.AsyncClient(timeout=timeout, trust_env=False, verify=False, headers=headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    @property
    def url(self) -> str:
        return self._url

    def move_on(self) -> None:
        self._url = next(self._urls)

    async def call(self, method: str, path: str, json: Any = None, **more: Any) -> httpx.Response | None:
        """The answer; `None` if there was none, and then the next call goes to another node. A node that cannot do it now
        is left as well."""
        try:
            answer = await self.http.request(method, f"{self._url}{path}", json=json, **more)
        except TROUBLE:
            self.move_on()
            return None
        if answer.status_code == 503:
            self.move_on()
        return answer

    async def insist(self, method: str, path: str, json: Any = None, *, tries: int = 120, **more: Any) -> httpx.Response:
        """Until somebody answers other than `not now`."""
        for _ in range(tries):
            answer = await self.call(method, path, json, **more)
            if answer is not None and answer.status_code not in (503, 429):
                return answer
            await asyncio.sleep(0.5)
        raise TimeoutError(f"{method} {path}: no node answers")


def odd(what: str, answer: httpx.Response) -> str:
    """An answer that no client should ever get, with what is needed to find it in the logs."""
    flow_id = answer.headers.get("X-Flow-Id")
    return f"{what} at {answer.url.netloc.decode()}: {answer.status_code} {answer.text[:200]} (flow {flow_id})"
