"""What a node measures when its metrics are asked for. How far applications are joins what workers and streams know."""

from collections import Counter

from meantime.errors import MeantimeError, NotFound
from meantime.measures import Measure, Measures
from meantime.metrics import REGISTRY, NamedGauge
from meantime.schedules import meters as schedule_meters
from meantime.schedules.schedules import Schedules
from meantime.streams.cursors import parse
from meantime.streams.reading.lags import Place
from meantime.streams.streams import Streams
from meantime.streams.subscriptions import lags as subscription_lags
from meantime.topics.meters import METERS
from meantime.topics.topics import Topics
from meantime.workers.inspection import Apps

QUEUE_LAG = NamedGauge(
    "meantime_app_queue_lag_events",
    "Events that an application has not processed yet, in the whole cluster.",
    ["app", "event_type", "partition"],
)
WORKERS = NamedGauge("meantime_app_workers", "Workers that an application has, in the whole cluster.", ["app"])
UNOWNED = NamedGauge("meantime_app_unowned_queues", "Queues of an application that no worker has.", ["app"])
REGISTRY.register(QUEUE_LAG)
REGISTRY.register(WORKERS)
REGISTRY.register(UNOWNED)


def measures_of(streams: Streams, topics: Topics, schedules: Schedules, apps: Apps) -> Measures:
    return Measures(
        [
            Measure("topics", topics.measure, METERS.lost),
            Measure("schedules", schedules.measure, schedule_meters.lost),
            Measure("subscriptions", lambda: subscription_lags.measure(streams.subscriptions), subscription_lags.LAG.lost),
            Measure("apps", lambda: measure_apps(streams, apps), lose_apps),
        ]
    )


async def measure_apps(streams: Streams, apps: Apps) -> None:
    workers: dict[tuple[str, ...], float] = {}
    unowned: Counter[tuple[str, ...]] = Counter()
    places: dict[tuple[str, ...], Place] = {}
    for app in await apps.apps():
        try:
            states = await apps.queues(app.name)
        except NotFound:
            continue
        workers[app.name,] = app.workers
        unowned[app.name,] = sum(state.owner is None for state in states)
        for state in states:
            record = state.record
            if not record.event_type or not record.partition.isdecimal():
                continue
            try:
                place = parse(record.cursor or "BEGIN")
            except MeantimeError:
                continue
            places[app.name, record.event_type, record.partition] = ((record.event_type, int(record.partition)), place)
    WORKERS.measured(workers)
    UNOWNED.measured(unowned)
    QUEUE_LAG.measured(await streams.reading.lags.of(places))


def lose_apps() -> None:
    for gauge in (WORKERS, UNOWNED, QUEUE_LAG):
        gauge.lost()
