"""The HTTP surface: one table of routes, and the application made of it."""

from dataclasses import dataclass
from typing import Any

import msgspec
from litestar import Litestar
from litestar.di import Provide
from litestar.openapi.config import OpenAPIConfig

from meantime import __version__
from meantime.api import node, timers
from meantime.api.problems import HANDLERS
from meantime.api.schema_page import SchemaDocument, SchemaPage
from meantime.api.streams import cursors, event_types, publishing, reading, storages, timelines
from meantime.api.subscriptions import subscriptions
from meantime.api.topics import topics
from meantime.api.workers import apps
from meantime.cluster.view import ClusterView
from meantime.streams.streams import Streams
from meantime.timers.timers import Timers
from meantime.topics.topics import Topics
from meantime.workers.inspection import Apps

ROUTES: list[Any] = [
    *node.ROUTES,
    *event_types.ROUTES,
    *publishing.ROUTES,
    *reading.ROUTES,
    *cursors.ROUTES,
    *subscriptions.ROUTES,
    *storages.ROUTES,
    *timelines.ROUTES,
    *topics.ROUTES,
    *timers.ROUTES,
    *apps.ROUTES,
]


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers may ask for, by the name of the parameter."""

    cluster: ClusterView
    streams: Streams
    topics: Topics
    timers: Timers
    apps: Apps

    def by_name(self) -> dict[str, Any]:
        """Handlers that read ask for that side of streams alone."""
        sides = {"reading": self.streams.reading, "subscriptions": self.streams.subscriptions}
        return {name: getattr(self, name) for name in self.__slots__} | sides


def create_app(services: Services) -> Litestar:
    return Litestar(
        route_handlers=ROUTES,
        dependencies={name: _provide(service) for name, service in services.by_name().items()},
        exception_handlers=HANDLERS,
        openapi_config=OpenAPIConfig(
            title="Meantime",
            version=__version__,
            description="An event broker with a sense of time.",
            path="/schema",
            render_plugins=[SchemaPage(), SchemaDocument()],
            use_handler_docstrings=True,
        ),
        request_max_body_size=None,
        logging_config=None,
        type_encoders={msgspec.Raw: bytes},
        debug=False,
        pdb_on_exception=False,
    )


def _provide(service: Any) -> Provide:
    return Provide(lambda: service, sync_to_thread=False, use_cache=True)
