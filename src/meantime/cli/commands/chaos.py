"""`meantime chaos`: everything in use while it is broken by plan, and judged from what was recorded."""

import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from meantime.cli.input import one_or_three
from meantime.cli.output import print_json, print_line
from meantime.durations import parse_duration

CAPABILITIES = ("streams", "topics", "timers", "workers", "pipelines")
KINDS = ("kill", "freeze", "partition", "power", "clock", "disk")
SWITCHES, CONTROLS, ALL = "switches", "controls", "all"


def register(app: typer.Typer) -> None:
    app.command()(chaos)


def chaos(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES]...",
            help="What is in use: streams, topics, timers, workers, pipelines, or all. Or, alone: `switches`, a fault at "
            "every step of a switch between two clusters; `controls`, only the planted defects that checks must find.",
        ),
    ] = None,
    replicas: Annotated[int, typer.Option(callback=one_or_three, help="How many of each service: 1 or 3.")] = 1,
    faults: Annotated[
        str, typer.Option(metavar="KIND,…", help="Kinds of faults: kill, freeze, partition, power, clock, disk.")
    ] = "kill,freeze",
    seed: Annotated[int, typer.Option(help="Decides every choice; the same seed makes the same plan.")] = 1,
    lasts: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long faults come, as in 90s or 5m.")] = "5m",
    durable: Annotated[bool, typer.Option("--durable", help="Kafka writes to the disk before it acknowledges.")] = False,
    switches: Annotated[
        int, typer.Option(min=1, max=1000, help="Of `switches`: how many, each with a fault. Given alone, it means them.")
    ] = 10,
    data: Annotated[
        Path | None, typer.Option(help="Where the stack and its logs live; a temporary folder if not given.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write the report as one page with a timeline.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Use everything while processes are killed, frozen and cut off, and check that every promise is kept.

    Starts a stack of its own: three nodes, and one or three of each service. Faults come by a plan that follows from the
    seed; the next one when all is whole again. The verdict comes from what users have recorded, one check per invariant, and
    defects are planted into that record to show that each check can see. Exit code 1 if there is any finding, or if a
    planted defect is not found; kinds of faults that this machine does not allow are named and left out.

    Example: meantime chaos topics workers --for 2m --seed 7

    Example: meantime chaos all --replicas 3 --faults kill,freeze --for 5m --report chaos.html

    Example: meantime chaos all --faults clock,disk,power --for 5m

    Example: meantime chaos switches --seed 7 --switches 20

    Example: meantime chaos controls
    """
    tell: Callable[[str], None] = (lambda _: None) if json else print_line
    chosen = list(names or ([SWITCHES] if "--switches" in " ".join(sys.argv) else [ALL]))
    with tempfile.TemporaryDirectory(prefix="meantime-chaos-") as temporary:
        folder = data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if chosen == [SWITCHES]:
            good = _run_switches(folder, seed, switches, tell, json)
        elif chosen == [CONTROLS]:
            good = _run_controls(seed, json)
        else:
            kinds = _among(faults.split(","), KINDS, "kind of faults")
            wanted = CAPABILITIES if ALL in chosen else _among(chosen, CAPABILITIES, "capability")
            good = _run_suite(folder, wanted, kinds, (replicas, seed, _seconds(lasts), durable), (tell, json, report))
    if not good:
        raise typer.Exit(1)


def _end_cleanly_by_signals() -> None:
    """Mounts, networks and processes are taken down again; also in the background, where shells have Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


def _run_suite(
    folder: Path,
    capabilities: Sequence[str],
    kinds: Sequence[str],
    chosen: tuple[int, int, float, bool],
    output: tuple[Callable[[str], None], bool, Path | None],
) -> bool:
    from meantime import logs
    from meantime.chaos.reporting.page import page
    from meantime.chaos.suite import SuiteOptions, run_suite

    (replicas, seed, lasts, durable), (tell, json, file) = chosen, output
    options = SuiteOptions(
        capabilities=capabilities,
        kinds=kinds,  # type: ignore[arg-type]
        replicas=replicas,
        seed=seed,
        lasts=lasts,
        durable=durable,
        command="meantime " + shlex.join(sys.argv[1:]),
    )
    _end_cleanly_by_signals()
    logs.configure("error", "console")  # what users of a broken stack hear is not news
    found = run_suite(folder, options, tell)
    if file is not None:
        file.write_text(page(found), "utf-8")
        tell(f"the report is in {file}")
    print_json(found.as_data()) if json else print_line("\n".join(found.lines()))
    return found.good


def _run_switches(folder: Path, seed: int, switches: int, tell: Callable[[str], None], json: bool) -> bool:
    from meantime import logs
    from meantime.chaos.streams import ChaosPlan, run

    _end_cleanly_by_signals()
    logs.configure("error", "console")
    report = run(folder / "stack", ChaosPlan(seed=seed, switches=switches), tell)
    print_json(report.summary()) if json else print_line("\n".join(report.lines()))
    return report.good


def _run_controls(seed: int, json: bool) -> bool:
    from meantime.chaos.checks.everything import all_controls

    found = all_controls(seed)
    if json:
        print_json({"good": all(control.caught for control in found), "controls": [str(control) for control in found]})
    else:
        print_line("\n".join(map(str, found)))
    return all(control.caught for control in found)


def _among(given: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    asked = [name.strip() for name in given if name.strip()]
    for name in asked:
        if name not in known:
            raise typer.BadParameter(f"{name!r} is no {what}; there are: {', '.join(known)}")
    return [name for name in known if name in asked]


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"--for: {error}") from None
