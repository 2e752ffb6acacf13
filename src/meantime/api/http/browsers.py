"""What only browsers do: cookies, requests that another site has caused, and what a page may load.

A browser sends the cookie of a session with every request to this host, whoever caused it. `SameSite=Strict` keeps it from
doing so for other sites; a write also has to prove that it comes from a page of this very origin: by `Sec-Fetch-Site`, which
no page can set, or by an `Origin` that is the host it was sent to. No answer allows another origin to read it.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from meantime.errors import Forbidden

COOKIE = "meantime_session"
CONSOLE = "/console"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
GUARDED: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""The headers of every answer below `/console`."""

RequestHeaders = Mapping[bytes, bytes]


def is_of_console(path: str) -> bool:
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


def session_token(headers: RequestHeaders) -> str | None:
    """The token in the cookie of a session, if there is one."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None


def cookie(token: str, lasts_for: int, headers: RequestHeaders, *, tls: bool) -> str:
    """The header that sets the cookie; an empty token takes it away."""
    secure = "; Secure" if tls or _scheme(headers) == "https" else ""
    return f"{COOKIE}={token}; Path=/; Max-Age={lasts_for if token else 0}; HttpOnly; SameSite=Strict{secure}"


def _scheme(headers: RequestHeaders) -> str:
    """As the browser sees it, where something in front of the node speaks TLS."""
    return urlsplit(headers.get(b"origin", b"").decode("latin-1")).scheme


def check_origin(method: str, headers: RequestHeaders, *, proof: bool) -> None:
    """Raise Forbidden for a write that a page of another origin has caused. With `proof` it has to be shown that none has;
    programs that are no browsers say nothing of where they come from."""
    if method in SAFE:
        return
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site == b"same-origin" or (site is None and origin is not None and _is_own(origin, headers)):
        return
    if proof or origin is not None or site not in (None, b"none"):
        raise Forbidden("a page of another origin may not do this; use the console itself, or a key", reason="origin")


def _is_own(origin: bytes, headers: RequestHeaders) -> bool:
    """Whether an origin is the host that the request was sent to."""
    host = headers.get(b"host") or headers.get(b":authority") or b""
    return bool(host) and urlsplit(origin.decode("latin-1")).netloc.lower() == host.decode("latin-1").lower()
