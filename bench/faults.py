"""What each failure does to each capability, on replicated services under load: the table of docs/measured/faults.md.

    python bench/faults.py                         every fault once
    python bench/faults.py --times 3 --seed 5      three times each, the worst of them in the table
    python bench/faults.py --only kill --only power --capability streams

The faults come one after the other in this order, not by a seeded plan; what is done in between, and how it is judged, is as
in `meantime chaos`. A gap is the longest time without any success after the fault; for timers it is the latest callback.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from meantime import logs
from meantime.chaos.injecting.plan import AGENT, AGENT_FROZEN_FOR, MACHINE, PRIMARY, ZOOKEEPER_LEADER, PlannedFault
from meantime.chaos.reporting.report import SuiteReport
from meantime.chaos.suite import SuiteOptions, run_suite

PAUSE_S, CUT_OFF_FOR_S = 6.0, 8.0
CAPABILITIES = ("streams", "topics", "timers", "workers")
FAULTS = (
    PlannedFault("kill", ZOOKEEPER_LEADER, PAUSE_S, 0.0),
    PlannedFault("kill", "kafka-1-2", PAUSE_S, 0.0),
    PlannedFault("kill", PRIMARY, PAUSE_S, 0.0),
    PlannedFault("freeze", AGENT, PAUSE_S, AGENT_FROZEN_FOR),
    PlannedFault("partition", "node-1", PAUSE_S, CUT_OFF_FOR_S, "its peers"),
    PlannedFault("partition", "node-2", PAUSE_S, CUT_OFF_FOR_S, "zookeeper"),
    PlannedFault("partition", "node-3", PAUSE_S, CUT_OFF_FOR_S, "postgres"),
    PlannedFault("power", MACHINE, PAUSE_S, 0.0),
)

console = Console(width=140)


def measured(faults: list[PlannedFault], asked: argparse.Namespace) -> SuiteReport:
    kinds = tuple(dict.fromkeys(fault.kind for fault in faults))
    with tempfile.TemporaryDirectory(prefix="meantime-faults-") as folder:
        options = SuiteOptions(
            capabilities=asked.capability or CAPABILITIES,
            kinds=kinds,
            replicas=3,
            seed=asked.seed,
            script=faults * asked.times,
            command=f"bench/faults.py --seed {asked.seed}",
        )
        return run_suite(Path(folder), options, console.print)


def tell(reports: list[SuiteReport]) -> None:
    worst: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        for index, fault in enumerate(report.faults):
            worst[fault.said]["whole again"].append(fault.whole - fault.began)
            for name, one in report.capabilities.items():
                worst[fault.said][name].append(one.gaps[index])
    columns = list(dict.fromkeys(name for row in worst.values() for name in row))
    table = Table("fault", *columns, title="longest of each, in seconds")
    for said, row in worst.items():
        table.add_row(said, *(f"{max(row[name]):.1f}" if row[name] else "" for name in columns))
    console.print(table)


def main() -> int:
    arguments = argparse.ArgumentParser(description="What each failure does, on replicated services.")
    arguments.add_argument("--times", type=int, default=1)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", action="append", choices=sorted({fault.kind for fault in FAULTS}))
    arguments.add_argument("--capability", action="append", choices=CAPABILITIES)
    asked = arguments.parse_args()
    logs.configure("error", "console")
    chosen = [fault for fault in FAULTS if not asked.only or fault.kind in asked.only]
    # With power cuts brokers flush each batch, which the other gaps are measured without.
    runs = [[fault for fault in chosen if (fault.kind == "power") == power] for power in (False, True)]
    reports = [measured(faults, asked) for faults in runs if faults]
    for report in reports:
        console.print("\n".join(report.lines()))
    tell(reports)
    return 0 if all(report.good for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
