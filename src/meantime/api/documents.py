"""Bodies that are one JSON object, read as they are: the slices decide what they mean."""

from typing import Any

import msgspec

from meantime.api.identity import AnyRequest
from meantime.errors import Malformed


async def read_object(request: AnyRequest) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Malformed("the body must be a JSON object")
    return document
