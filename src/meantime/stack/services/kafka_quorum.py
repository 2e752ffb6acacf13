"""Which broker of a cluster is the controller: one request of Kafka's protocol that clients in Python do not know.

To all who ask for the metadata, brokers name any of them as the controller; only `DescribeQuorum` tells the truth.
"""

import socket
import struct

from meantime.stack.model import HOST

_DESCRIBE_QUORUM, _VERSION, _CORRELATION = 55, 0, 1
_TOPIC = b"__cluster_metadata"
_REQUEST = (
    struct.pack("!hhih", _DESCRIBE_QUORUM, _VERSION, _CORRELATION, -1)
    # Lengths are one greater than what they count; a zero is the end of a structure that has no more fields.
    + bytes([0, 2, len(_TOPIC) + 1, *_TOPIC, 2, 0, 0, 0, 0, 0, 0, 0])
)
_LEADER, _LEADER_AT = struct.Struct("!ihi"), 9 + len(_TOPIC) + 1


def controller_of(port: int, within: float = 2.0) -> int | None:
    """The id of the controller, asked of the broker at this port; `None` while there is none."""
    with socket.create_connection((HOST, port), timeout=within) as connection:
        connection.sendall(struct.pack("!i", len(_REQUEST)) + _REQUEST)
        answers = connection.makefile("rb")
        length = answers.read(4)
        answer = answers.read(*struct.unpack("!i", length)) if len(length) == 4 else b""
    if len(answer) < _LEADER.size + _LEADER_AT:
        return None
    # Correlation id, no more fields; an error, a topic with its name, a partition with its number, its error, its leader.
    _, error, leader = _LEADER.unpack_from(answer, _LEADER_AT)
    return None if error or leader < 0 else leader
