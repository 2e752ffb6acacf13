"""The HTTP surface of a node: the table of routes, with the parts of the node behind it."""

from meantime.api.console.files import console_routes
from meantime.api.edge import Edge, RequestAuthenticator
from meantime.api.routing import Router
from meantime.api.schema import schema_routes
from meantime.api.services import Services
from meantime.api.table import TABLE
from meantime.clock import Clock
from meantime.console.files import ConsoleFiles


def create_edge(services: Services, clock: Clock, authenticator: RequestAuthenticator | None) -> Edge:
    routes = [*TABLE, *schema_routes(TABLE), *console_routes(ConsoleFiles())]
    return Edge(Router(routes), services, clock=clock, authenticator=authenticator, audit=services.audit)
