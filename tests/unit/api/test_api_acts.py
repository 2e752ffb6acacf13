"""Every call that changes something is an act of an operator, which the audit log is told of, or daily work of programs."""

from meantime.api.http.browsers import SAFE
from meantime.api.operators.acts import ACTS
from meantime.api.table import TABLE

DAILY_WORK = {
    "POST /event-types/{name}/events",
    "POST /event-types/{name}/cursor-distances",
    "POST /event-types/{name}/shifted-cursors",
    "POST /event-types/{name}/cursors-lag",
    "POST /subscriptions",
    "POST /subscriptions/{id}/cursors",
    "POST /subscriptions/{id}/events",
    "POST /schedules/preview",
    "POST /topics/{topic}/messages",
    "PATCH /topics/{topic}/messages/{message_id}",
    "DELETE /topics/{topic}/messages/{message_id}",
    "POST /topics/{topic}/leases",
    "POST /topics/{topic}/leases/extend",
    "POST /topics/{topic}/leases/release",
    "POST /topics/{topic}/leases/delete",
    "POST /timers",
    "DELETE /timers/{token}",
    "POST /console/login",
    "POST /console/logout",
}


def test_every_call_that_changes_something_is_audited_or_known_as_daily_work() -> None:
    changing = {f"{route.method} {route.path}" for route in TABLE if route.method not in SAFE}
    assert changing == ACTS.keys() | DAILY_WORK
    assert not ACTS.keys() & DAILY_WORK


def test_the_targets_of_acts_are_named_by_their_paths() -> None:
    for call, (_, target) in ACTS.items():
        path = call.partition(" ")[2]
        assert set(_names(target)) <= set(_names(path)), call


def _names(path: str) -> list[str]:
    return [part for part in path.split("/") if part.startswith("{")]
