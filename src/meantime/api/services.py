"""What handlers may ask: the parts of a node."""

from dataclasses import dataclass

from meantime.cluster.view import ClusterView
from meantime.streams.streams import Streams
from meantime.timers.timers import Timers
from meantime.topics.topics import Topics
from meantime.workers.inspection import Apps


@dataclass(frozen=True, slots=True)
class Services:
    cluster: ClusterView
    streams: Streams
    topics: Topics
    timers: Timers
    apps: Apps
