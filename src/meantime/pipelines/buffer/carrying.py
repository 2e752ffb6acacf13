"""A Kafka record on its way through a topic: key, value and headers as they were, in a JSON body that people can read."""

import msgspec


class Header(msgspec.Struct, frozen=True):
    key: str
    value: bytes | None = None


class Carried(msgspec.Struct, frozen=True):
    """Bytes are base64 in JSON; what is absent was null."""

    key: bytes | None = None
    value: bytes | None = None
    headers: list[Header] = []


def unpacked(body: bytes) -> Carried:
    return msgspec.json.decode(body, type=Carried)
