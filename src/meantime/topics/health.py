"""What topics need to know of the node's health."""

from typing import Protocol


class Health(Protocol):
    @property
    def healthy(self) -> bool: ...

    @property
    def state(self) -> str: ...

    def require_healthy(self) -> None:
        """Raise `Degraded` with the reasons unless this node may be trusted."""
        ...
