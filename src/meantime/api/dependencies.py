"""What handlers ask for by the name of a parameter; `api.app` provides it."""

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from meantime.cluster.view import ClusterView
from meantime.streams.reading import Reading
from meantime.streams.slice import Streams
from meantime.streams.subscriptions import Subscriptions
from meantime.timers.slice import Timers
from meantime.topics.slice import Topics
from meantime.workers.inspection import Apps

TheCluster = NamedDependency[SkipValidation[ClusterView]]
TheStreams = NamedDependency[SkipValidation[Streams]]
TheReading = NamedDependency[SkipValidation[Reading]]
TheSubscriptions = NamedDependency[SkipValidation[Subscriptions]]
TheTopics = NamedDependency[SkipValidation[Topics]]
TheTimers = NamedDependency[SkipValidation[Timers]]
TheApps = NamedDependency[SkipValidation[Apps]]
