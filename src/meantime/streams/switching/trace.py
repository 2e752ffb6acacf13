"""How a switch goes, as it goes: how long each phase took, and when which node had acknowledged the lock. It is written with
the steps that are written anyway, so that watching a switch costs it nothing."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from meantime.streams.switching.model import Switch, SwitchAcknowledgement, SwitchPhase


class SwitchTrace:
    """`locked_at` is on the monotonic clock; 0 before the lock."""

    def __init__(self) -> None:
        self.locked_at = 0.0
        self._phases: list[SwitchPhase] = []
        self._acknowledged: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Of one that fails, nothing is kept: how far the switch came is told by its state."""
        began = time.monotonic()
        yield
        self._phases.append(SwitchPhase(name, round((time.monotonic() - began) * 1000, 2)))

    def lock(self) -> None:
        self.locked_at = time.monotonic()

    def reached(self, version: int, nodes: Mapping[str, int]) -> None:
        """The versions that nodes have reacted to by now."""
        for node, reached in nodes.items():
            if reached >= version and node not in self._acknowledged:
                self._acknowledged[node] = self.since_lock_ms()

    def since_lock_ms(self) -> float:
        return round((time.monotonic() - self.locked_at) * 1000, 1)

    def on(self, switch: Switch) -> Switch:
        """The switch with what is known by now."""
        acknowledged = tuple(SwitchAcknowledgement(node, ms) for node, ms in self._acknowledged.items())
        return replace(switch, phases=tuple(self._phases), acknowledged=acknowledged)
