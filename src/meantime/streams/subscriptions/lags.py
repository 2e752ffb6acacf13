"""How far subscriptions are behind, for the metrics: all of them at once, by the names that their owners gave."""

from collections import Counter
from contextlib import suppress

from meantime.errors import Invalid, NotFound
from meantime.metrics import REGISTRY, NamedGauge
from meantime.streams.model import PartitionKey
from meantime.streams.reading.lags import Place
from meantime.streams.subscriptions.stream import as_known
from meantime.streams.subscriptions.subscriptions import Subscriptions

LAG = NamedGauge(
    "meantime_subscription_lag_events",
    "Events that a subscription has not committed yet, in the whole cluster.",
    ["owning_application", "consumer_group", "event_type"],
)
REGISTRY.register(LAG)

Places = dict[tuple[str, str, PartitionKey], Place]
"""By application, group and partition."""


async def measure(subscriptions: Subscriptions) -> None:
    sums: Counter[tuple[str, ...]] = Counter()
    lags = await subscriptions.reading.lags.of(await _committed(subscriptions) | await _beginnings(subscriptions))
    for (application, group, key), lag in lags.items():
        sums[application, group, key[0]] += lag
    LAG.measured(sums)


async def _committed(subscriptions: Subscriptions) -> Places:
    catalog, places = subscriptions.reading.catalog, Places()
    for application, group, key, cursor in await subscriptions.store.all_cursors():
        with suppress(NotFound):
            places[application, group, key] = (key, as_known(await catalog.entry(key[0]), cursor))
    return places


async def _beginnings(subscriptions: Subscriptions) -> Places:
    """Of those that nobody has read yet: what there would be to read for who comes now."""
    places = Places()
    for unread in await subscriptions.store.unread():
        with suppress(NotFound, Invalid):
            for key, place in (await subscriptions.beginnings(unread)).items():
                places[unread.owning_application, unread.consumer_group, key] = (key, place)
    return places
