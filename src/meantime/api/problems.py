"""Errors become responses here, by one table, as `application/problem+json` (RFC 9457).

What is not in the table is a bug: it is logged with its trace and answered with a 500 that says nothing but its flow id.
"""

from typing import Any, NamedTuple

import msgspec
import structlog

from meantime.errors import MeantimeError

log = structlog.get_logger(__name__)

STATUS = {
    "malformed": 400,
    "invalid": 422,
    "bad_cursor": 422,
    "unknown_reference": 422,
    "cursors_unavailable": 412,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "already_fired": 409,
    "stale_version": 409,
    "leased": 409,
    "corrupt_record": 409,
    "too_large": 413,
    "headers_too_large": 431,
    "body_late": 408,
    "unknown_encoding": 415,
    "too_many_requests": 429,
    "unavailable": 503,
    "degraded": 503,
    "barrier_timeout": 503,
    "coordination_lost": 503,
    "storage_unavailable": 503,
}

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

MEDIA_TYPE = b"application/problem+json"


def problem(status: int, detail: str, *, code: str, retryable: bool = False, **extras: Any) -> dict[str, Any]:
    title = TITLES.get(status, "Error")
    return {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "retryable": retryable,
    } | extras


class Rendered(NamedTuple):
    """An error as an answer."""

    status: int
    body: bytes
    headers: dict[str, str]


def rendered(error: MeantimeError) -> Rendered:
    status = STATUS.get(error.code, 500)
    if status == 500:
        log.error("unmapped_error", code=error.code, detail=error.detail, exc_info=error)
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(error.extras.get("retry_after", 1))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    document = problem(status, error.detail, code=error.code, retryable=error.retryable, **error.extras)
    return Rendered(status, msgspec.json.encode(document), headers)


def rendered_bug(method: str, path: str, error: Exception) -> Rendered:
    log.error("unexpected_error", method=method, path=path, exc_info=error)
    detail = "an unexpected error; the node's log has the details under this X-Flow-Id"
    return Rendered(500, msgspec.json.encode(problem(500, detail, code="internal", retryable=True)), {})
