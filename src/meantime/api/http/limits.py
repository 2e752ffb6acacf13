"""What a node takes from its clients at most: sizes, times, connections, and bytes of bodies in flight."""

from dataclasses import dataclass

from prometheus_client import Gauge

from meantime.metrics import REGISTRY

BODY_BYTES = Gauge("meantime_http_body_bytes", "Bytes of request bodies that are held in memory.", registry=REGISTRY)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_header_bytes: int = 64 * 1024
    max_body_bytes: int = 64 * 1024 * 1024
    max_bodies_bytes: int = 256 * 1024 * 1024
    header_timeout: float = 10.0
    body_timeout: float = 60.0
    idle_timeout: float = 75.0
    max_connections: int = 4096
    stop_timeout: float = 10.0


class BodyBudget:
    """Bytes of bodies that all exchanges of a node may hold together."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        self.left = most
        BODY_BYTES.set_function(lambda: most - self.left)

    def take(self, size: int) -> bool:
        """False when there is no room, and then nothing is taken."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        self.left += size
