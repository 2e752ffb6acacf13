"""The judgement of a node about itself."""

import pytest

from meantime.cluster.health import Health, HealthLimits, HealthSigns, HealthVerdict, NodeState, judge
from meantime.coordination.session import SessionState
from meantime.errors import Degraded

LIMITS = HealthLimits(drift_ms=500, recover_for=1.0, storage_for=5.0)
WELL = HealthVerdict()


@pytest.mark.parametrize(
    ("signs", "state", "codes"),
    [
        (HealthSigns(), NodeState.HEALTHY, set()),
        (HealthSigns(offset_ms=500), NodeState.HEALTHY, set()),
        (HealthSigns(offset_ms=501), NodeState.DEGRADED, {"clock_drift"}),
        (HealthSigns(offset_ms=-5000), NodeState.DEGRADED, {"clock_drift"}),
        (HealthSigns(nodes_seen=2, nodes_known=3), NodeState.HEALTHY, set()),
        (HealthSigns(nodes_seen=1, nodes_known=3), NodeState.DEGRADED, {"no_majority"}),
        (HealthSigns(nodes_seen=1, nodes_known=2), NodeState.DEGRADED, {"no_majority"}),
        (HealthSigns(nodes_seen=2, nodes_known=4), NodeState.DEGRADED, {"no_majority"}),
        (HealthSigns(session=SessionState.SUSPENDED), NodeState.DEGRADED, {"zookeeper_suspended"}),
        (HealthSigns(session=SessionState.LOST), NodeState.INACTIVE, {"zookeeper_lost"}),
        (HealthSigns(storage_missing_for=0.0), NodeState.DEGRADED, {"storage"}),
        (HealthSigns(storage_missing_for=5.0), NodeState.INACTIVE, {"storage"}),
        (HealthSigns(starting="not joined"), NodeState.DEGRADED, {"starting"}),
        (HealthSigns(stopping=True), NodeState.INACTIVE, {"stopping"}),
        (
            HealthSigns(offset_ms=900, session=SessionState.LOST, nodes_seen=1, nodes_known=3),
            NodeState.INACTIVE,
            {"clock_drift", "no_majority", "zookeeper_lost"},
        ),
    ],
)
def test_each_sign_has_its_state_and_its_reason(signs, state, codes) -> None:
    verdict = judge(signs, LIMITS, WELL)
    assert (verdict.state, verdict.codes) == (state, codes)
    assert all(reason.detail for reason in verdict.reasons)


def test_a_drifted_clock_must_come_well_below_the_limit() -> None:
    drifted = judge(HealthSigns(offset_ms=600), LIMITS, WELL)
    assert judge(HealthSigns(offset_ms=450), LIMITS, drifted).codes == {"clock_drift"}
    assert judge(HealthSigns(offset_ms=390), LIMITS, drifted).codes == set()


def started() -> Health:
    health = Health(LIMITS)
    health.observe(HealthSigns(), at=0.0)
    return health


def test_a_node_is_starting_until_it_is_seen_to_be_well() -> None:
    health = Health(LIMITS)
    assert (health.state, health.healthy) == ("degraded", False)
    health.observe(HealthSigns(starting="the clock is being compared"), at=0.0)
    assert health.verdict.codes == {"starting"}
    health.observe(HealthSigns(), at=0.1)
    assert health.state == "healthy"


def test_worse_is_at_once_and_better_takes_a_while() -> None:
    health = started()
    health.observe(HealthSigns(offset_ms=5000), at=1.0)
    assert health.state == "degraded"
    health.observe(HealthSigns(), at=2.0)
    health.observe(HealthSigns(), at=2.9)
    assert health.state == "degraded"
    health.observe(HealthSigns(), at=3.0)
    assert health.state == "healthy"


def test_a_relapse_starts_the_recovery_anew() -> None:
    health = started()
    health.observe(HealthSigns(offset_ms=5000), at=1.0)
    health.observe(HealthSigns(), at=2.0)
    health.observe(HealthSigns(offset_ms=5000), at=2.5)
    health.observe(HealthSigns(), at=2.6)
    health.observe(HealthSigns(), at=3.5)
    assert health.state == "degraded"
    health.observe(HealthSigns(), at=3.7)
    assert health.state == "healthy"


def test_a_node_that_is_not_well_refuses_and_says_why() -> None:
    health = started()
    health.require_healthy()
    health.observe(HealthSigns(offset_ms=-5000), at=1.0)
    with pytest.raises(Degraded, match="5000 ms behind cluster time") as refusal:
        health.require_healthy()
    assert refusal.value.extras["reasons"] == [{"code": "clock_drift", "detail": health.reasons[0].detail}]


def test_listeners_hear_of_changes_and_only_of_changes() -> None:
    health = started()
    heard: list[str] = []
    stop = health.on_change(lambda verdict: heard.append(verdict.state.word))
    for at in range(3):
        health.observe(HealthSigns(offset_ms=5000 + at), at=float(at))
    health.observe(HealthSigns(offset_ms=5000, session=SessionState.LOST), at=3.0)
    assert heard == ["degraded", "inactive"]
    stop()
    health.observe(HealthSigns(stopping=True), at=4.0)
    assert heard == ["degraded", "inactive"]
