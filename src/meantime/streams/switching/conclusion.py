"""How a switch ends, whoever ends it: finished after the commit, rolled back before it.

Concluding starts by taking the switch over, also one's own: that waits for a commit under way, fences every earlier owner,
and tells on which side of the commit the switch is. Each step can be repeated, so a conclusion that is cut short is
simply begun again by the next node that finds the switch.
"""

import time
from contextlib import nullcontext

import structlog
from prometheus_client import Counter, Histogram

from meantime.errors import MeantimeError
from meantime.metrics import REGISTRY
from meantime.streams.switching.fault_points import passing
from meantime.streams.switching.model import Switch, SwitchState
from meantime.streams.switching.store import Superseded
from meantime.streams.switching.tools import SwitchTools
from meantime.streams.switching.trace import SwitchTrace

log = structlog.get_logger(__name__)

SWITCHES = Counter("meantime_switches_total", "Switches concluded by this node.", ["state"], registry=REGISTRY)
SWITCH_STALL = Histogram(
    "meantime_switch_stall_seconds",
    "From the lock until all nodes had let their publishers go on.",
    buckets=(0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 15, 60),
    registry=REGISTRY,
)


async def conclude(tools: SwitchTools, switch: Switch, reason: str) -> Switch | None:
    """Take the switch over and end it; None when another node does, or it is over."""
    taken = await tools.store.take_over(switch, tools.me())
    if taken is None:
        return None
    try:
        return await (finish(tools, taken) if taken.past_the_commit else roll_back(tools, taken, reason))
    except Superseded:
        return None


async def finish(tools: SwitchTools, switch: Switch, trace: SwitchTrace | None = None) -> Switch:
    """After the commit: unlock, second bump, wait for all. A node that does not answer cannot undo it any more, and is not
    waited for; least of all one that has not answered before. `trace` is had by who began the switch."""
    with trace.phase("unlock") if trace else nullcontext():
        version = await tools.steps.end(str(switch.id), switch.event_type)
        log.info("switch_unlocked", event_type=switch.event_type, switch=str(switch.id), version=version)
        passing("unlocked")
        missing = await tools.barrier.missing_after(
            version, tools.options.overtake_after, tools.options.barrier_for, without=switch.overtaken
        )
    if missing:
        log.warning("switch_done_without_some", event_type=switch.event_type, switch=str(switch.id), missing=missing)
    changes = {
        "stall_ms": None if trace is None else round((time.monotonic() - trace.locked_at) * 1000, 2),
        "overtaken": (*switch.overtaken, *missing),
        "finished_at_ms": tools.clock.now_ms(),
    }
    done = await tools.store.advance(trace.on(switch) if trace else switch, SwitchState.DONE, **changes)
    log.info("switch_done", event_type=switch.event_type, switch=str(switch.id), stall_ms=done.stall_ms)
    SWITCHES.labels("done").inc()
    if done.stall_ms is not None:
        SWITCH_STALL.observe(done.stall_ms / 1000)
    return done


async def roll_back(tools: SwitchTools, switch: Switch, reason: str) -> Switch:
    """Before the commit: open the old topic again, drop the new one, unlock and tell the nodes."""
    bound = log.bind(event_type=switch.event_type, switch=str(switch.id))
    bound.warning("switch_rolling_back", reason=reason, state=switch.state.value)
    if switch.old_settings:
        await _open_again(tools, switch)
    version = await tools.steps.end(str(switch.id), switch.event_type)
    await tools.topics.drop(switch.storage_id, switch.new_topic)
    failed = await tools.store.advance(switch, SwitchState.FAILED, error=reason, finished_at_ms=tools.clock.now_ms())
    bound.info("switch_failed", version=version, reason=reason)
    SWITCHES.labels("failed").inc()
    return failed


async def _open_again(tools: SwitchTools, switch: Switch) -> None:
    """If the storage does not answer now, the first refused publisher opens the topic later."""
    try:
        source = tools.catalog.storage(switch.old_storage_id)
        await tools.sealer(source).open_again(switch.old_topic, switch.old_settings)
    except MeantimeError as error:
        log.warning("topic_not_opened_yet", event_type=switch.event_type, topic=switch.old_topic, error=error.detail)
