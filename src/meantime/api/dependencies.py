"""What handlers ask for by the name of a parameter; `api.app` provides it."""

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from meantime.cluster.view import ClusterView
from meantime.streams.reading.reader import Reading
from meantime.streams.streams import Streams
from meantime.streams.subscriptions.subscriptions import Subscriptions
from meantime.timers.timers import Timers
from meantime.topics.topics import Topics
from meantime.workers.inspection import Apps

TheCluster = NamedDependency[SkipValidation[ClusterView]]
TheStreams = NamedDependency[SkipValidation[Streams]]
TheReading = NamedDependency[SkipValidation[Reading]]
TheSubscriptions = NamedDependency[SkipValidation[Subscriptions]]
TheTopics = NamedDependency[SkipValidation[Topics]]
TheTimers = NamedDependency[SkipValidation[Timers]]
TheApps = NamedDependency[SkipValidation[Apps]]
