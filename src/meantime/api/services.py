"""What handlers may ask: the parts of a node."""

from dataclasses import dataclass

from meantime.access.keys import Keys
from meantime.access.sessions import ConsoleSessions
from meantime.audit.audit_store import AuditLog
from meantime.cluster.view import ClusterView
from meantime.console.feed import ConsoleFeed
from meantime.measures import Measures
from meantime.schedules.schedules import Schedules
from meantime.streams.streams import Streams
from meantime.timers.timers import Timers
from meantime.topics.topics import Topics
from meantime.workers.inspection import Apps


@dataclass(frozen=True, slots=True)
class Services:
    """`sessions` is None when authentication is off."""

    cluster: ClusterView
    streams: Streams
    topics: Topics
    timers: Timers
    schedules: Schedules
    apps: Apps
    measures: Measures
    node_id: str
    sessions: ConsoleSessions | None
    feed: ConsoleFeed
    keys: Keys
    audit: AuditLog
