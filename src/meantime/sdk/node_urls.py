"""URLs of nodes: which text is one, and which of those that a cluster names a client may use.

A client is given URLs by its user, and learns others from `GET /nodes`. What is given is used as it is. What is learned is
judged by itself, URL by URL: a client that has a key, or that was given an `https://` node, never goes on in the clear. It
uses a learned `http://` node only on this machine, and only if it was given a node of this machine.
"""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from meantime.errors import Invalid
from meantime.names import is_loopback


def node_urls(urls: str | Sequence[str]) -> tuple[str, ...]:
    """`"http://a:1,http://b:2"` or a list of URLs, checked."""
    parts = urls.split(",") if isinstance(urls, str) else list(urls)
    found = tuple(part.strip().rstrip("/") for part in parts if part.strip())
    for url in found:
        if not _is_node_url(url):
            raise Invalid(f"{url!r} is not the address of a node; write it as http://host:port")
    if not found:
        raise Invalid("give the address of at least one node, as in http://127.0.0.1:8080")
    return found


def why_unusable(learned: str, given: Iterable[str], *, has_key: bool) -> str | None:
    """Why a client that was given these URLs must not use this one that it has learned; None if it may."""
    if not _is_node_url(learned):
        return "it is not the address of a node"
    parts = urlsplit(learned)
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "it has more in it than the address of a node"
    if is_secure(learned):
        return None
    given = tuple(given)
    if not has_key and not any(map(is_secure, given)):
        return None
    if is_local(learned) and any(map(is_local, given)):
        return None
    return "the key would go out in the clear" if has_key else "it does not speak TLS"


def is_secure(url: str) -> bool:
    return urlsplit(url).scheme == "https"


def is_local(url: str) -> bool:
    """Whether a URL names this machine and cannot leave it."""
    return is_loopback(urlsplit(url).hostname or "")


def _is_node_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
