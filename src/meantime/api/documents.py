"""Bodies that are one JSON object, read as they are: the slices decide what they mean."""

from typing import Any

import msgspec

from meantime.api.identity import AnyRequest
from meantime.errors import Invalid, Malformed
from meantime.names import has_nul


async def read_object(request: AnyRequest) -> dict[str, Any]:
    body = await request.body()
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Malformed("the body must be a JSON object")
    if b"\\u0000" in body and has_nul(document):
        raise Invalid("texts must not contain the character U+0000: it cannot be stored")
    return document
