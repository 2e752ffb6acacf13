"""What was done when, the gap that each fault made for each capability, and the verdict."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from meantime.chaos.checks.model import INVARIANTS, Control, Finding


@dataclass(frozen=True, slots=True)
class DoneFault:
    """A fault that happened: when it began, when its cause was gone, when the stack was whole again."""

    number: int
    kind: str
    said: str
    done: str
    began: float
    mended: float
    whole: float


@dataclass(slots=True)
class Capability:
    """One workload: when it got on, how late timed things came, and its counts."""

    at: Sequence[float] = ()
    late: Sequence[tuple[float, float]] = ()
    counts: dict[str, int] = field(default_factory=dict)
    gaps: list[float] = field(default_factory=list)
    """One a fault: seconds in which nobody got an answer, or of the latest callback."""


@dataclass(slots=True)
class SuiteReport:
    seed: int
    command: str
    replicas: int
    began: float = 0.0
    ended: float = 0.0
    faults: list[DoneFault] = field(default_factory=list)
    capabilities: dict[str, Capability] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.findings and all(control.caught for control in self.controls)

    def measure(self) -> None:
        """The gaps: each fault's stretch lasts until the next one begins."""
        ends = [*(fault.began for fault in self.faults[1:]), self.ended]
        for one in self.capabilities.values():
            one.gaps = [
                latest(one.late, fault.began, end) if one.late else longest_gap(one.at, fault.began, end)
                for fault, end in zip(self.faults, ends, strict=True)
            ]

    @property
    def verdict(self) -> str:
        if self.findings:
            return counted(len(self.findings), "finding")
        blind = [control for control in self.controls if not control.caught]
        return f"{len(blind)} controls saw nothing: the verdict is worth nothing" if blind else "no finding"

    def as_data(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "command": self.command,
            "replicas": self.replicas,
            "good": self.good,
            "verdict": self.verdict,
            "took_s": round(self.ended - self.began, 1),
            "faults": [
                {
                    "number": fault.number,
                    "kind": fault.kind,
                    "what": fault.said,
                    "done": fault.done,
                    "at_s": round(fault.began - self.began, 2),
                    "lasted_s": round(fault.mended - fault.began, 2),
                    "whole_after_s": round(fault.whole - fault.began, 2),
                    "gap_s": {name: round(one.gaps[index], 2) for name, one in self.capabilities.items() if one.gaps},
                }
                for index, fault in enumerate(self.faults)
            ],
            "counts": {name: one.counts for name, one in self.capabilities.items()},
            "findings": [asdict(finding) for finding in self.findings],
            "controls": [asdict(control) for control in self.controls],
            "left_out": self.left_out,
        }

    def lines(self) -> list[str]:
        names = list(self.capabilities)
        head = f"  {'at':>6}  {'fault':<48} {'whole':>6}  " + " ".join(f"{name:>9}" for name in names)
        rows = [
            f"  {fault.began - self.began:>5.0f}s  {fault.done or fault.said:<48.48} {fault.whole - fault.began:>5.1f}s  "
            + " ".join(f"{_shown(one.gaps, index):>9}" for one in self.capabilities.values())
            for index, fault in enumerate(self.faults)
        ]
        caught = sum(control.caught for control in self.controls)
        return [
            f"seed {self.seed}: {counted(len(self.faults), 'fault')} in {self.ended - self.began:.0f} s, "
            f"{self.replicas} of each service",
            *(f"  left out: {what}" for what in self.left_out),
            *([head, *rows] if rows else []),
            *(
                f"  {name}: " + ", ".join(f"{n} {what}" for what, n in one.counts.items())
                for name, one in self.capabilities.items()
            ),
            f"  controls: {caught} of {len(self.controls)} planted defects found",
            *(f"  {control}" for control in self.controls if not control.caught),
            *(f"  FINDING {finding}" for finding in self.findings[:50]),
            *([f"  … and {len(self.findings) - 50} more"] if len(self.findings) > 50 else []),
            "; ".join(INVARIANTS.values()) if self.good else f"FAILED: {self.verdict}",
        ]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _shown(gaps: Sequence[float], index: int) -> str:
    return f"{gaps[index]:.1f}s" if gaps else "-"


def longest_gap(at: Sequence[float], began: float, end: float) -> float:
    """The longest stretch without any success that has a part after `began`, counted from its own beginning."""
    before = max((moment for moment in at if moment <= began), default=began)
    moments = [before, *sorted(moment for moment in at if began < moment < end)]
    last = min((moment for moment in at if moment >= end), default=end)
    return max((later - earlier for earlier, later in pairwise([*moments, min(last, end)])), default=0.0)


def latest(late: Sequence[tuple[float, float]], began: float, end: float) -> float:
    """By how much the latest of those came too late that were due or came in this stretch."""
    return max((seconds for came, seconds in late if came >= began and came - seconds < end), default=0.0)
