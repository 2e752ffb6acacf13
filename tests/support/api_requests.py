"""A valid request for every row of the table. Most rows have one; some forms need two to show all their fields."""

from collections.abc import Callable
from time import time
from typing import Any

from api_world import CURSOR, GROUP, ApiRequest, ApiWorld, new_name

Requests = Callable[[ApiWorld], list[ApiRequest]]
ALL_KEYS = [{"data_type": "*", "value": "*"}]
EVERYBODY = {"admins": ALL_KEYS, "readers": ALL_KEYS}


def _plain(world: ApiWorld) -> list[ApiRequest]:
    return [ApiRequest()]


def _event_type(**more: Any) -> Requests:
    return lambda world: [ApiRequest({"name": world.read}, **more)]


def _declaration(world: ApiWorld) -> dict[str, Any]:
    return {
        "name": new_name("declared"),
        "enrichment_strategies": ["metadata_enrichment"],
        "partition_key_fields": ["a"],
        "schema": {"type": "json_schema", "schema": "{}"},
        "default_statistic": {"read_parallelism": 1, "write_parallelism": 1},
        "options": {"retention_time": 172_800_000},
        "authorization": EVERYBODY | {"writers": ALL_KEYS, "admins": [{"data_type": "team", "value": "operators"}]},
    }


def _change(world: ApiWorld) -> list[ApiRequest]:
    statistic = {"read_parallelism": 2, "write_parallelism": 2}
    body = _declaration(world) | {"name": world.read, "default_statistic": statistic}
    return [ApiRequest({"name": world.read}, body=body)]


def _subscription(**more: Any) -> Requests:
    return lambda world: [ApiRequest({"id": world.subscribed}, **more)]


def _subscribe(world: ApiWorld, owner: str) -> dict[str, Any]:
    cursors = [CURSOR | {"event_type": world.read, "partition": partition} for partition in ("0", "1")]
    form = {"owning_application": owner, "event_types": [world.read], "read_from": "cursors", "authorization": EVERYBODY}
    return form | {"initial_cursors": cursors}


def _update(world: ApiWorld) -> list[ApiRequest]:
    owner = world.make("GET", f"/subscriptions/{world.subscribed}")["owning_application"]
    return [ApiRequest({"id": world.subscribed}, body=_subscribe(world, owner))]


def _commit(world: ApiWorld) -> list[ApiRequest]:
    return [commit_of(world.committing)]


def commit_of(committing: tuple[str, str, dict[str, Any]]) -> ApiRequest:
    id, stream_id, cursor = committing
    return ApiRequest({"id": id}, headers={"X-Nakadi-StreamId": stream_id}, body={"items": [cursor]})


def _reset(world: ApiWorld) -> list[ApiRequest]:
    return [ApiRequest({"id": world.subscribed}, body={"items": [CURSOR | {"event_type": world.read}]})]


def _choose(world: ApiWorld) -> list[ApiRequest]:
    chosen = [{"event_type": world.read, "partition": "0"}]
    return [ApiRequest({"id": world.subscription()}, body={"partitions": chosen})]


def _schedule(**more: Any) -> Requests:
    return lambda world: [ApiRequest({"id": world.scheduled}, **more)]


def _calendars(world: ApiWorld) -> list[dict[str, Any]]:
    """All of them far ahead, so that nothing fires while something else is looked at."""
    target = {"target": {"topic": world.topic, "group": "owners"}}
    rhythm = {"every_ms": 366 * 86_400_000, "phase_ms": 1}
    return [calendar | target for calendar in ({"cron": "0 9 1 1 *"}, rhythm, {"at_ms": [4_000_000_000_000]})]


def _storage(world: ApiWorld) -> list[ApiRequest]:
    return [ApiRequest({"storage_id": world.storage()})]


def _switches(world: ApiWorld) -> list[ApiRequest]:
    return [ApiRequest({"name": world.switched, "switch_id": world.switch_id})]


def _switch(world: ApiWorld) -> list[ApiRequest]:
    return [ApiRequest({"name": world.switched}, body={"storage_id": "default"})]


def _topic(**more: Any) -> Requests:
    return lambda world: [ApiRequest({"topic": world.topic}, **more)]


def _message(**more: Any) -> Requests:
    return lambda world: [ApiRequest(world.message(), headers=GROUP, **more)]


def _pull(world: ApiWorld) -> list[ApiRequest]:
    """There is always something due, so that nothing waits."""
    world.message(after_ms=0)
    return [ApiRequest({"topic": world.topic}, {"consumer_id": "c"}, body={})]


def _claims(world: ApiWorld) -> list[ApiRequest]:
    lease = world.lease()
    claim = {"id": lease["id"], "version": lease["version"], "after_ms": 10_000}
    return [ApiRequest({"topic": lease["topic"]}, {"consumer_id": "holder"}, body={"leases": [claim]})]


def _releases(world: ApiWorld) -> list[ApiRequest]:
    (request,) = _claims(world)
    request.body["leases"][0]["reason"] = "the mail server is down"
    return [request]


def _timers(world: ApiWorld) -> list[ApiRequest]:
    timer = {"at": int(time()) + 3600, "callback_topic": world.callback_topic}
    return [ApiRequest(body=timer), ApiRequest(body={"timers": [timer]}, about="body.timers")]


def _timer(world: ApiWorld) -> list[ApiRequest]:
    timer = {"at": int(time()) + 3600, "callback_topic": world.callback_topic}
    return [ApiRequest({"token": world.make("POST", "/timers", timer)["token"]})]


def _app(world: ApiWorld) -> list[ApiRequest]:
    return [ApiRequest(world.running_app)]


def _move_many(world: ApiWorld) -> list[ApiRequest]:
    form = {"filter": {"status": "waiting"}, "after_ms": 3_600_000}
    by_id = {"filter": {"ids": ["unknown"]}, "after_ms": 3_600_000}
    topic = {"topic": world.new_topic()}
    return [
        ApiRequest(topic, headers=GROUP, body=form),
        ApiRequest(topic, headers=GROUP, body=by_id, about="body.filter.ids"),
    ]


def _delete_many(world: ApiWorld) -> list[ApiRequest]:
    topic = {"topic": world.new_topic()}
    return [
        ApiRequest(topic, headers=GROUP, body={"ids": ["unknown"]}, about="body.ids"),
        ApiRequest(topic, headers=GROUP, body={"filter": {"status": "dead"}}),
        ApiRequest(topic, headers=GROUP, body={"filter": {"ids": ["unknown"]}}, about="body.filter.ids"),
    ]


LOAD = {"from_ms": 0, "to_ms": 10_000, "step_ms": 1000}

REQUESTS: dict[str, Requests] = {
    "GET /health": _plain,
    "GET /ready": _plain,
    "GET /nodes": _plain,
    "GET /clock": _plain,
    "GET /metrics": _plain,
    "GET /schema": lambda world: [ApiRequest(), ApiRequest(headers={"Accept": "application/json"})],
    "GET /schema/openapi.json": _plain,
    "GET /event-types": _plain,
    "POST /event-types": lambda world: [ApiRequest(body=_declaration(world))],
    "GET /event-types/{name}": _event_type(),
    "PUT /event-types/{name}": _change,
    "DELETE /event-types/{name}": lambda world: [ApiRequest({"name": world.event_type()})],
    "POST /event-types/{name}/events": _event_type(body=[{"n": 1}]),
    "GET /event-types/{name}/events": _event_type(headers={"X-Nakadi-Cursors": '[{"partition":"0","offset":"BEGIN"}]'}),
    "GET /event-types/{name}/partitions": _event_type(query={"cursors": '[{"partition":"0","offset":"BEGIN"}]'}),
    "GET /event-types/{name}/partitions/{partition}": lambda world: [ApiRequest({"name": world.read, "partition": "0"})],
    "POST /event-types/{name}/cursor-distances": _event_type(body=[{"initial_cursor": CURSOR, "final_cursor": CURSOR}]),
    "POST /event-types/{name}/shifted-cursors": _event_type(body=[CURSOR | {"shift": 1}]),
    "POST /event-types/{name}/cursors-lag": _event_type(body=[CURSOR]),
    "POST /subscriptions": lambda world: [ApiRequest(body=_subscribe(world, new_name("app")))],
    "GET /subscriptions": _plain,
    "GET /subscriptions/{id}": _subscription(),
    "PUT /subscriptions/{id}": _update,
    "DELETE /subscriptions/{id}": lambda world: [ApiRequest({"id": world.subscription()})],
    "GET /subscriptions/{id}/stats": _subscription(),
    "GET /subscriptions/{id}/cursors": _subscription(),
    "POST /subscriptions/{id}/cursors": _commit,
    "PATCH /subscriptions/{id}/cursors": _reset,
    "GET /subscriptions/{id}/events": lambda world: [ApiRequest({"id": world.subscription()})],
    "POST /subscriptions/{id}/events": _choose,
    "GET /storages": _plain,
    "POST /storages": lambda world: [ApiRequest(body=world.storage_form())],
    "GET /storages/{storage_id}": _storage,
    "DELETE /storages/{storage_id}": _storage,
    "PUT /storages/default/{storage_id}": lambda world: [ApiRequest({"storage_id": "default"})],
    "GET /event-types/{name}/timelines": _event_type(),
    "POST /event-types/{name}/timelines": _switch,
    "GET /event-types/{name}/switches": _event_type(),
    "GET /event-types/{name}/switches/{switch_id}": _switches,
    "GET /registry/partition-strategies": _plain,
    "GET /registry/enrichment-strategies": _plain,
    "GET /topics": _plain,
    "GET /topics/{topic}": _topic(),
    "PUT /topics/{topic}": lambda world: [ApiRequest({"topic": new_name("topic")}, body={"retry": {}})],
    "DELETE /topics/{topic}": lambda world: [ApiRequest({"topic": world.new_topic()})],
    "GET /topics/{topic}/load": _topic(query=LOAD),
    "GET /topics/{topic}/count": _topic(),
    "GET /topics/{topic}/consumers": _topic(),
    "POST /topics/{topic}/redrive": _topic(body={}),
    "POST /topics/{topic}/messages": _topic(headers=GROUP, body={"messages": [{"after_ms": 3_600_000}]}),
    "GET /topics/{topic}/messages": _topic(headers=GROUP),
    "GET /topics/{topic}/messages/{message_id}": _message(),
    "PATCH /topics/{topic}/messages/{message_id}": _message(body={"after_ms": 1_000_000}),
    "DELETE /topics/{topic}/messages/{message_id}": _message(),
    "POST /topics/{topic}/messages/move": _move_many,
    "POST /topics/{topic}/messages/delete": _delete_many,
    "POST /topics/{topic}/leases": _pull,
    "GET /topics/{topic}/leases": lambda world: [ApiRequest({"topic": world.new_topic()}, {"consumer_id": "c"})],
    "POST /topics/{topic}/leases/extend": _claims,
    "POST /topics/{topic}/leases/release": _releases,
    "POST /topics/{topic}/leases/delete": _claims,
    "POST /timers": _timers,
    "GET /timers/load": lambda world: [ApiRequest(query={"from": 0, "to": 1000, "step": 100})],
    "GET /timers/status": _plain,
    "GET /timers/{token}": _timer,
    "DELETE /timers/{token}": _timer,
    "GET /schedules": _plain,
    "POST /schedules/preview": lambda world: [ApiRequest(body=body) for body in _calendars(world)],
    "POST /schedules/pause": lambda world: [ApiRequest(body={"prefix": world.schedule()})],
    "POST /schedules/resume": lambda world: [ApiRequest(body={"prefix": world.schedule()})],
    "GET /schedules/{id}": _schedule(),
    "PUT /schedules/{id}": lambda world: [ApiRequest({"id": new_name("schedule")}, body=body) for body in _calendars(world)],
    "DELETE /schedules/{id}": lambda world: [ApiRequest({"id": world.schedule()})],
    "GET /schedules/{id}/next": _schedule(),
    "GET /schedules/{id}/firings": _schedule(),
    "POST /schedules/{id}/fire": _schedule(body={}),
    "POST /schedules/{id}/backfill": _schedule(body={"from_ms": 1_600_000_000_000, "to_ms": 1_600_000_060_000}),
    "POST /schedules/{id}/pause": _schedule(body={}),
    "POST /schedules/{id}/resume": _schedule(),
    "GET /apps": _plain,
    "GET /apps/{app}": _app,
    "DELETE /apps/{app}": lambda world: [ApiRequest(world.app())],
    "POST /apps/{app}/pause": _app,
    "POST /apps/{app}/resume": _app,
    "GET /apps/{app}/workers": _app,
    "GET /apps/{app}/changes": _app,
    "GET /apps/{app}/queues": _app,
    "GET /apps/{app}/queues/{queue}": _app,
    "PUT /apps/{app}/queues/{queue}/last": lambda world: [ApiRequest(world.running_app, body={"cursor": "BEGIN"})],
    "POST /apps/{app}/queues/{queue}/pause": _app,
    "POST /apps/{app}/queues/{queue}/resume": _app,
    "GET /keys": _plain,
    "POST /keys": lambda world: [ApiRequest(body={"name": "another", "scopes": ["metrics"]})],
    "DELETE /keys/{id}": lambda world: [ApiRequest({"id": world.key_id()})],
    "GET /audit": _plain,
    "POST /console/login": lambda world: [ApiRequest(body={"key": world.key("metrics")["Authorization"].split()[1]})],
    "POST /console/logout": _plain,
    "GET /console/session": _plain,
    "GET /console/events": _plain,
}
