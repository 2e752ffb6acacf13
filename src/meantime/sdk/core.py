"""What both clients share, without I/O: which node to ask, when to retry, how an answer is judged.

`Core` knows the nodes, the caller's credentials and the broker's time. `core.begin(call)` gives an `Exchange`, which says
what to send next and judges what came back:

    send ──► answered ──► Done(value) | error raised | Pause, then send again
      └────► failed ────► Pause, then send again     | Unreachable raised

Nodes are equal. After a failure the next one of the list is asked, and stays the preferred one for later calls.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from meantime.errors import Unreachable
from meantime.sdk.calls.call import Call, Response
from meantime.sdk.drift import HEADER, Drift
from meantime.sdk.node_urls import node_urls, why_unusable
from meantime.sdk.problems import error_of
from meantime.sdk.retries import Retries, asked_pause, may_repeat_after
from meantime.sdk.trust import check_key_is_safe

T = TypeVar("T")

IGNORED = "x-meantime-ignored"


class UnknownFieldWarning(UserWarning):
    """A document had fields that the broker ignored; most are misspelt."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None
    answer_for: float


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Credentials:
    """The API key and the producer group that a client acts as; `insecure` if the key may go out in the clear."""

    key: str | None = None
    producer_group: str = "default"
    insecure: bool = False

    @property
    def guarded(self) -> bool:
        """Whether there is a key that must not leave this machine in the clear."""
        return self.key is not None and not self.insecure

    def headers(self) -> dict[str, str]:
        named = {"X-Producer-Group": self.producer_group}
        return named | ({"Authorization": f"Bearer {self.key}"} if self.key else {})


class Core:
    def __init__(
        self,
        urls: str | Sequence[str],
        credentials: Credentials,
        *,
        timeout: float = 40.0,
        retries: Retries | None = None,
        drift: Drift | None = None,
    ) -> None:
        self._given = self._urls = node_urls(urls)
        if credentials.guarded:
            check_key_is_safe(self._given)
        self._left_out: set[str] = set()
        self.credentials = credentials
        self.timeout = timeout
        self.retries = retries or Retries()
        self.drift = drift or Drift()
        self._headers = credentials.headers()
        self._preferred = 0

    @property
    def urls(self) -> tuple[str, ...]:
        """The nodes that may be asked: those that were given, and those that were learned."""
        return self._urls

    @property
    def url(self) -> str:
        """The node that is asked next."""
        return self._urls[self._preferred]

    def learn(self, urls: Iterable[str]) -> dict[str, str]:
        """Ask these nodes, too, as far as that is safe; returns those that are left out for the first time, and why."""
        left_out = {}
        for url in dict.fromkeys(url.strip().rstrip("/") for url in urls):
            if not url or url in self._urls or url in self._left_out:
                continue
            if why := why_unusable(url, self._given, has_key=self.credentials.guarded):
                self._left_out.add(url)
                left_out[url] = why
            else:
                self._urls += (url,)
        return left_out

    def begin(self, call: Call[T], *, retry_for: float | None = None) -> "Exchange[T]":
        return Exchange(self, call, self.retries.retry_for if retry_for is None else retry_for)

    def request(self, call: Call[T]) -> Request:
        headers = {name: value for name, value in {**self._headers, **call.headers}.items() if value}
        headers |= self.drift.headers()
        answer_for = call.answer_for or self.timeout + call.wait_for
        return Request(call.method, self.url + call.path, headers, call.content, answer_for)

    def prefer_next(self, url: str) -> None:
        """Prefer the node after this one, unless another call has done so already."""
        if self.url == url:
            self._preferred = (self._preferred + 1) % len(self._urls)


class Exchange(Generic[T]):
    """One call, from its first sending until it has an answer or is given up."""

    def __init__(self, core: Core, call: Call[T], retry_for: float) -> None:
        self._core = core
        self._call = call
        self._began_ms = core.drift.counted_ms()
        self._retry_for = retry_for
        self._failures = 0
        self._url = core.url
        self._sent_ms = self._began_ms

    def request(self) -> Request:
        self._url = self._core.url
        self._sent_ms = self._core.drift.counted_ms()
        return self._core.request(self._call)

    def observe(self, answer: Response) -> None:
        stamp = answer.headers.get(HEADER, "")
        if stamp.isdigit():
            self._core.drift.observe(int(stamp), self._sent_ms, self._core.drift.counted_ms())

    def answered(self, answer: Response) -> Done[T] | Pause:
        self.observe(answer)
        if ignored := answer.headers.get(IGNORED):
            warnings.warn(f"the broker ignored what it does not know: {ignored}", UnknownFieldWarning, stacklevel=5)
        if answer.status < 400:
            return Done(self._call.read(answer))
        if may_repeat_after(self._call, answer):
            pause = self._next_pause(asked_pause(answer), self._patience(answer))
            if pause is not None:
                return Pause(pause)
        raise (self._call.refusal and self._call.refusal(answer)) or error_of(answer)

    def failed(self, error: Exception, *, arrived: bool) -> Pause:
        """The exchange broke; `arrived` unless the request surely did not reach a node."""
        pause = self._next_pause(None, self._retry_for) if self._call.repeatable or not arrived else None
        if pause is not None:
            return Pause(pause)
        doubt = "" if self._call.repeatable or not arrived else "; it is not known whether the call had an effect"
        raise Unreachable(f"no answer from {self._url}: {reason(error)}{doubt}", url=self._url) from error

    def _patience(self, answer: Response) -> float:
        return self._call.conflict_for if answer.status == 409 else self._retry_for

    def _next_pause(self, asked: float | None, patience: float) -> float | None:
        """Seconds until the next sending, or None when that would be too late. Untried nodes are asked at once."""
        self._failures += 1
        self._core.prefer_next(self._url)
        untried = self._failures < len(self._core.urls)
        pause = 0.0 if untried else max(asked or 0.0, self._core.retries.pause(self._failures))
        spent = (self._core.drift.counted_ms() - self._began_ms) / 1000
        return pause if spent + pause <= patience else None


def reason(error: Exception) -> str:
    return str(error) or type(error).__name__
