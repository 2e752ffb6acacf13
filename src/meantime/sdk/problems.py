"""Problem documents become the exceptions of `meantime.errors`.

The class is found by the document's `code`, else by the status, so that a client never has to know every code. What the
document carries beside the standard fields is in `error.extras`.
"""

from collections.abc import Iterator

import msgspec

from meantime import errors
from meantime.errors import MeantimeError
from meantime.sdk.calls.call import Response

STANDARD = frozenset({"type", "title", "status", "detail", "code", "retryable"})

BY_STATUS: dict[int, type[MeantimeError]] = {
    400: errors.Malformed,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.Malformed,
    409: errors.Conflict,
    412: errors.Invalid,
    413: errors.TooLarge,
    422: errors.Invalid,
    429: errors.Unavailable,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def error_of(answer: Response) -> MeantimeError:
    """The exception that an answer of 400 or above stands for."""
    document = _document(answer.content)
    code = document.get("code")
    kind = _classes().get(str(code)) or BY_STATUS.get(answer.status, MeantimeError)
    detail = document.get("detail") or f"the node answered {answer.status}"
    extras = {name: value for name, value in document.items() if name not in STANDARD}
    return _build(kind, str(detail), str(code) if code else kind.code, extras)


def _document(content: bytes) -> dict[str, object]:
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _classes() -> dict[str, type[MeantimeError]]:
    return {kind.code: kind for kind in _tree(MeantimeError)}


def _tree(kind: type[MeantimeError]) -> Iterator[type[MeantimeError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


def _build(kind: type[MeantimeError], detail: str, code: str, extras: dict[str, object]) -> MeantimeError:
    """A class may have a constructor of its own, made for the side that raises it; here only the document counts."""
    error = kind.__new__(kind)
    MeantimeError.__init__(error, detail)
    error.extras = extras
    error.__dict__["code"] = code
    return error
