"""Bodies that are one JSON object, read as they are: the slices decide what they mean."""

from typing import Any

import msgspec

from meantime.api.identity import AnyRequest
from meantime.errors import Invalid, Malformed


async def read_object(request: AnyRequest) -> dict[str, Any]:
    body = await request.body()
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Malformed("the body must be a JSON object")
    if b"\\u0000" in body and _has_nul(document):
        raise Invalid("texts must not contain the character U+0000: it cannot be stored")
    return document


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\x00" in value
