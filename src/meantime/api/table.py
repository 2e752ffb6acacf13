"""The API on one screen. One row is one operation: method, path, who may, handler, answers by status, body, query, headers.

Everything else comes from here: routing, decoding, the check of rights, the OpenAPI document, the page of the reference and
the labels of the metrics. What a row means in detail is told by its handler's docstring and by the structs that it names.
"""

from typing import Any

from meantime.api import node, timers
from meantime.api.bodies import document, form, raw
from meantime.api.console import events as live
from meantime.api.console import sessions
from meantime.api.operators import audit, keys
from meantime.api.rights import (
    EVENT_TYPE_ADMIN,
    KNOWN,
    MESSAGE_READER,
    MESSAGES_CHANGER,
    MESSAGES_READER,
    PRODUCER,
    PUBLISH,
    READ,
    READ_ALL,
    READ_ALL_PLACES,
    READ_EVENTS,
    READ_PLACES,
    READER_OR_PUBLISHER,
    SCHEDULE_CHANGER,
    SCHEDULE_VIEWER,
    SCHEDULES_CHANGER,
    SCHEDULES_VIEWER,
    TIMER_SETTER,
    TOPIC_MAKER,
    TOPIC_VIEWER,
    TOPICS_VIEWER,
    looked_at,
)
from meantime.api.routing import Route, scope
from meantime.api.schedules import firings, schedules
from meantime.api.schedules.forms import (
    BackfillForm,
    FireForm,
    FiringsQuery,
    NextQuery,
    PauseForm,
    PausePrefixForm,
    PrefixForm,
    PreviewForm,
    ScheduleForm,
)
from meantime.api.schedules.forms import ListQuery as SchedulesQuery
from meantime.api.schedules.views import (
    ChangedScheduleView,
    FiredView,
    FiringsView,
    NextsView,
    PausedView,
    SchedulesView,
    ScheduleView,
)
from meantime.api.streaming import EVENT_STREAM, JSON_STREAM, NDJSON
from meantime.api.streams import cursors, event_types, publishing, reading, storages, timelines
from meantime.api.streams.cursors import CursorList, Distance, OffsetQuery, Pairs, PartitionDocument, PartitionsQuery, Shifts
from meantime.api.streams.event_types import EventTypeChange, EventTypeDocument, EventTypeForm
from meantime.api.streams.publishing import Events, Items
from meantime.api.streams.reading import BatchLine, CursorDocument, CursorsHeader, EventsQuery
from meantime.api.streams.storages import StorageForm, StorageView
from meantime.api.streams.timelines import SwitchForm, SwitchKey, SwitchView, TimelineView
from meantime.api.subscriptions import cursors as commits
from meantime.api.subscriptions import events, subscriptions
from meantime.api.subscriptions.cursors import CommitResults, Cursors, StreamId
from meantime.api.subscriptions.documents import (
    CursorsForm,
    Page,
    SubscriptionChange,
    SubscriptionDocument,
    SubscriptionForm,
)
from meantime.api.subscriptions.events import ReaderForm, ReaderQuery, SubscriptionBatch
from meantime.api.subscriptions.subscriptions import LagQuery, ListQuery, SubscriptionStats
from meantime.api.timers import TimerQuery
from meantime.api.topics import leases, messages, redriving, topics
from meantime.api.topics.forms import (
    AnyProducerHeader,
    ClaimsForm,
    ConsumerQuery,
    DeleteManyForm,
    DraftsForm,
    FinishForm,
    MessageQuery,
    ProducerHeader,
    PullForm,
    RedriveForm,
    ReleasesForm,
    SettingsForm,
)
from meantime.api.topics.leases import PushQuery
from meantime.api.topics.messages import VersionQuery
from meantime.api.topics.views import (
    ConsumersView,
    CountedTopicView,
    CountView,
    DeletedMany,
    LeasesView,
    LeaseView,
    LoadView,
    MessagesView,
    MessageView,
    MovedView,
    OutcomesView,
    TopicsView,
)
from meantime.api.workers import apps, changes
from meantime.cluster.view import ClockReport, Readiness
from meantime.timers.status import TimersStatus
from meantime.topics.model import BulkChange, Redriven

ADMIN, TIMERS, APPS, METRICS = scope("admin"), scope("timers"), scope("apps"), scope("metrics")
SCHEDULE, CHANGER, CHANGERS = SCHEDULE_VIEWER, SCHEDULE_CHANGER, SCHEDULES_CHANGER
LOOK = scope("look")
CONSUMER, OPERATOR, OWNER = scope("consume", of="topic"), scope("operate", of="topic"), EVENT_TYPE_ADMIN
GROUP, ANY_GROUP = ProducerHeader, AnyProducerHeader
CLAIMS, RELEASED, FINISHED = raw(ClaimsForm), raw(ReleasesForm), raw(FinishForm)
ANY, MOVED, DELETION, DELETED = ANY_GROUP, messages.MOVE_MANY, raw(DeleteManyForm), {200: DeletedMany}
NEW_EVENT_TYPE = document(EventTypeForm, EventTypeDocument)
CHANGED_EVENT_TYPE = document(EventTypeChange, EventTypeDocument)
NEW_SUBSCRIPTION = document(SubscriptionForm, SubscriptionDocument)
CHANGED_SUBSCRIPTION = document(SubscriptionChange, SubscriptionDocument)
MESSAGE = "/topics/{topic}/messages/{message_id}"
PUBLISHED = {200: None, 207: Items, 422: Items}
PARTITION, PARTITIONS = {200: PartitionDocument}, {200: list[PartitionDocument]}
SUBSCRIBED = {201: SubscriptionDocument, 200: SubscriptionDocument}
SWITCHED = {201: TimelineView, 200: TimelineView}
RESULTS = {200: CommitResults, 204: None}
EVENTS, LINES = {200: BatchLine}, {200: SubscriptionBatch}

TABLE: tuple[Route, ...] = (
    # --- the node ---
    Route("GET", "/health", None, node.health, {200: node.Alive}),
    Route("GET", "/ready", None, node.ready, {200: Readiness}),
    Route("GET", "/nodes", KNOWN, node.nodes, {200: node.Nodes}, query=node.NodesQuery),
    Route("GET", "/clock", None, node.clock, {200: ClockReport}),
    Route("GET", "/metrics", looked_at(METRICS), node.metrics_page, {200: str}),
    # --- event types ---
    Route("GET", "/event-types", KNOWN, event_types.list_all, {200: list[EventTypeDocument]}),
    Route("POST", "/event-types", ADMIN, event_types.create, {201: EventTypeDocument}, NEW_EVENT_TYPE),
    Route("GET", "/event-types/{name}", READER_OR_PUBLISHER, event_types.show, {200: EventTypeDocument}),
    Route("PUT", "/event-types/{name}", OWNER, event_types.update, {200: EventTypeDocument}, CHANGED_EVENT_TYPE),
    Route("DELETE", "/event-types/{name}", OWNER, event_types.delete, {200: None}),
    # --- publishing and reading ---
    Route("POST", "/event-types/{name}/events", PUBLISH, publishing.publish, PUBLISHED, raw(Events)),
    Route(
        "GET",
        "/event-types/{name}/events",
        READ_EVENTS,
        reading.events,
        EVENTS,
        None,
        EventsQuery,
        CursorsHeader,
        JSON_STREAM,
    ),
    # --- partitions and cursors ---
    Route("GET", "/event-types/{name}/partitions", READ_PLACES, cursors.list_partitions, PARTITIONS, query=PartitionsQuery),
    Route(
        "GET",
        "/event-types/{name}/partitions/{partition}",
        READ_PLACES,
        cursors.show_partition,
        PARTITION,
        query=OffsetQuery,
    ),
    Route("POST", "/event-types/{name}/cursor-distances", READ, cursors.distances, {200: list[Distance]}, raw(Pairs)),
    Route("POST", "/event-types/{name}/shifted-cursors", READ, cursors.shifted, {200: list[CursorDocument]}, raw(Shifts)),
    Route("POST", "/event-types/{name}/cursors-lag", READ, cursors.lags, PARTITIONS, raw(CursorList)),
    # --- subscriptions ---
    Route("POST", "/subscriptions", READ_ALL, subscriptions.create, SUBSCRIBED, NEW_SUBSCRIPTION),
    Route("GET", "/subscriptions", KNOWN, subscriptions.list_all, {200: Page}, query=ListQuery),
    Route("GET", "/subscriptions/{id}", READ_ALL_PLACES, subscriptions.show, {200: SubscriptionDocument}),
    Route("PUT", "/subscriptions/{id}", READ_ALL, subscriptions.update, {204: None}, CHANGED_SUBSCRIPTION),
    Route("DELETE", "/subscriptions/{id}", READ_ALL, subscriptions.delete, {204: None}),
    Route(
        "GET",
        "/subscriptions/{id}/stats",
        READ_ALL_PLACES,
        subscriptions.show_stats,
        {200: SubscriptionStats},
        query=LagQuery,
    ),
    Route("GET", "/subscriptions/{id}/cursors", READ_ALL_PLACES, commits.show, {200: Cursors}),
    Route("POST", "/subscriptions/{id}/cursors", READ_ALL, commits.commit, RESULTS, document(CursorsForm), None, StreamId),
    Route("PATCH", "/subscriptions/{id}/cursors", READ_ALL, commits.reset, {204: None}, document(CursorsForm)),
    Route("GET", "/subscriptions/{id}/events", READ_ALL, events.assigned, LINES, query=ReaderQuery, streams=JSON_STREAM),
    Route("POST", "/subscriptions/{id}/events", READ_ALL, events.chosen, LINES, document(ReaderForm), streams=JSON_STREAM),
    # --- storages ---
    Route("GET", "/storages", looked_at(ADMIN), storages.list_all, {200: list[StorageView]}),
    Route("POST", "/storages", ADMIN, storages.register, {201: StorageView}, document(StorageForm, StorageView)),
    Route("GET", "/storages/{storage_id}", looked_at(ADMIN), storages.show, {200: StorageView}),
    Route("DELETE", "/storages/{storage_id}", ADMIN, storages.forget, {204: None}),
    Route("PUT", "/storages/default/{storage_id}", ADMIN, storages.make_default, {200: StorageView}),
    # --- timelines and switches ---
    Route("GET", "/event-types/{name}/timelines", READ_PLACES, timelines.list_timelines, {200: list[TimelineView]}),
    Route("POST", "/event-types/{name}/timelines", ADMIN, timelines.switch, SWITCHED, document(SwitchForm), None, SwitchKey),
    Route("GET", "/event-types/{name}/switches", READ_PLACES, timelines.list_switches, {200: list[SwitchView]}),
    Route("GET", "/event-types/{name}/switches/{switch_id}", READ_PLACES, timelines.show, {200: SwitchView}),
    # --- registry ---
    Route("GET", "/registry/partition-strategies", KNOWN, event_types.list_partition_strategies, {200: list[str]}),
    Route("GET", "/registry/enrichment-strategies", KNOWN, event_types.list_enrichment_strategies, {200: list[str]}),
    # --- topics ---
    Route("GET", "/topics", TOPICS_VIEWER, topics.list_topics, {200: TopicsView}),
    Route("GET", "/topics/{topic}", TOPIC_VIEWER, topics.get_topic, {200: CountedTopicView}),
    Route("PUT", "/topics/{topic}", TOPIC_MAKER, topics.put_topic, topics.MADE, form(SettingsForm)),
    Route("DELETE", "/topics/{topic}", ADMIN, topics.delete_topic, {202: dict[str, Any]}),
    Route("GET", "/topics/{topic}/load", TOPIC_VIEWER, topics.load, {200: LoadView}, query=topics.LoadQuery),
    Route("GET", "/topics/{topic}/count", TOPIC_VIEWER, topics.count, {200: CountView}, query=topics.CountQuery),
    Route("GET", "/topics/{topic}/consumers", TOPIC_VIEWER, topics.consumers, {200: ConsumersView}),
    Route("POST", "/topics/{topic}/redrive", OPERATOR, redriving.redrive, {200: Redriven}, form(RedriveForm)),
    # --- messages ---
    Route("POST", "/topics/{topic}/messages", PRODUCER, messages.create, messages.CREATED, raw(DraftsForm), headers=GROUP),
    Route(
        "GET",
        "/topics/{topic}/messages",
        MESSAGES_READER,
        messages.list_messages,
        {200: MessagesView},
        None,
        messages.ListQuery,
        ANY_GROUP,
    ),
    Route("GET", MESSAGE, MESSAGE_READER, messages.get, {200: MessageView}, None, MessageQuery, ANY_GROUP),
    Route("PATCH", MESSAGE, PRODUCER, messages.move, {200: MovedView}, messages.MOVE, headers=GROUP),
    Route("DELETE", MESSAGE, PRODUCER, messages.delete, {204: None}, query=VersionQuery, headers=GROUP),
    Route(
        "POST", "/topics/{topic}/messages/move", MESSAGES_CHANGER, messages.move_many, {200: BulkChange}, MOVED, None, ANY
    ),
    Route("POST", "/topics/{topic}/messages/delete", MESSAGES_CHANGER, messages.delete_many, DELETED, DELETION, None, ANY),
    # --- leases ---
    Route("POST", "/topics/{topic}/leases", CONSUMER, leases.pull, {200: LeasesView}, form(PullForm), ConsumerQuery),
    Route("GET", "/topics/{topic}/leases", CONSUMER, leases.push, {200: LeaseView}, query=PushQuery, streams=NDJSON),
    Route("POST", "/topics/{topic}/leases/extend", CONSUMER, leases.extend, {200: OutcomesView}, CLAIMS, ConsumerQuery),
    Route("POST", "/topics/{topic}/leases/release", CONSUMER, leases.release, {200: OutcomesView}, RELEASED, ConsumerQuery),
    Route("POST", "/topics/{topic}/leases/delete", CONSUMER, leases.finish, {200: OutcomesView}, FINISHED, ConsumerQuery),
    # --- timers ---
    Route("POST", "/timers", TIMER_SETTER, timers.set_timers, {202: timers.SetTimersView}, timers.SET),
    Route("GET", "/timers/load", looked_at(TIMERS), timers.load_timers, {200: timers.Load}, query=timers.LoadQuery),
    Route("GET", "/timers/status", looked_at(TIMERS), timers.timers_status, {200: TimersStatus}, query=TimerQuery),
    Route("GET", "/timers/{token}", looked_at(TIMERS), timers.show_timer, {200: timers.KnownTimerView}, query=TimerQuery),
    Route("DELETE", "/timers/{token}", TIMERS, timers.cancel_timer, {202: timers.TimerView}, query=TimerQuery),
    # --- schedules ---
    Route("GET", "/schedules", SCHEDULES_VIEWER, schedules.list_schedules, {200: SchedulesView}, query=SchedulesQuery),
    Route("POST", "/schedules/preview", KNOWN, schedules.preview, {200: NextsView}, form(PreviewForm)),
    Route("POST", "/schedules/pause", CHANGERS, schedules.pause_many, {202: PausedView}, form(PausePrefixForm)),
    Route("POST", "/schedules/resume", CHANGERS, schedules.resume_many, {202: PausedView}, form(PrefixForm)),
    Route("GET", "/schedules/{id}", SCHEDULE, schedules.get_schedule, {200: ScheduleView}),
    Route("PUT", "/schedules/{id}", CHANGER, schedules.put_schedule, schedules.MADE, form(ScheduleForm)),
    Route("DELETE", "/schedules/{id}", CHANGER, schedules.delete_schedule, schedules.DELETED),
    Route("GET", "/schedules/{id}/next", SCHEDULE, schedules.next_firings, {200: NextsView}, query=NextQuery),
    Route("GET", "/schedules/{id}/firings", SCHEDULE, firings.list_firings, {200: FiringsView}, query=FiringsQuery),
    Route("POST", "/schedules/{id}/fire", CHANGER, firings.fire, {202: FiredView}, form(FireForm)),
    Route("POST", "/schedules/{id}/backfill", CHANGER, firings.backfill, {202: FiredView}, form(BackfillForm)),
    Route("POST", "/schedules/{id}/pause", CHANGER, schedules.pause, {202: ChangedScheduleView}, form(PauseForm)),
    Route("POST", "/schedules/{id}/resume", CHANGER, schedules.resume, {202: ChangedScheduleView}),
    # --- applications and their queues ---
    Route("GET", "/apps", looked_at(APPS), apps.list_apps, {200: apps.AppsDocument}),
    Route("GET", "/apps/{app}", looked_at(APPS), apps.show_app, {200: apps.AppDocument}),
    Route("DELETE", "/apps/{app}", APPS, apps.forget_app, {204: None}),
    Route("POST", "/apps/{app}/pause", APPS, apps.pause_app, {200: apps.AppDocument}),
    Route("POST", "/apps/{app}/resume", APPS, apps.resume_app, {200: apps.AppDocument}),
    Route("GET", "/apps/{app}/workers", looked_at(APPS), apps.list_workers, {200: apps.WorkersDocument}),
    Route("GET", "/apps/{app}/changes", looked_at(APPS), changes.follow, {200: changes.OwnerChangeView}, streams=NDJSON),
    Route("GET", "/apps/{app}/queues", looked_at(APPS), apps.list_queues, {200: apps.QueuesDocument}),
    Route("GET", "/apps/{app}/queues/{queue}", looked_at(APPS), apps.show_queue, {200: apps.QueueDocument}),
    Route("PUT", "/apps/{app}/queues/{queue}/last", APPS, apps.reset_queue, {200: apps.QueueDocument}, raw(apps.ResetForm)),
    Route("POST", "/apps/{app}/queues/{queue}/pause", APPS, apps.pause_queue, {200: apps.QueueDocument}),
    Route("POST", "/apps/{app}/queues/{queue}/resume", APPS, apps.resume_queue, {200: apps.QueueDocument}),
    # --- keys, and what operators have done ---
    Route("GET", "/keys", ADMIN, keys.list_keys, {200: keys.KeysView}),
    Route("POST", "/keys", ADMIN, keys.create, {201: keys.NewKeyView}, form(keys.KeyForm)),
    Route("DELETE", "/keys/{id}", ADMIN, keys.revoke, {204: None}),
    Route("GET", "/audit", ADMIN, audit.list_entries, {200: audit.AuditView}, query=audit.AuditQuery),
    # --- the console ---
    Route("POST", "/console/login", None, sessions.login, {204: None}, form(sessions.LoginForm)),
    Route("POST", "/console/logout", None, sessions.logout, {204: None}),
    Route("GET", "/console/session", None, sessions.show_session, {200: sessions.SessionView}),
    Route("GET", "/console/events", LOOK, live.follow, {200: live.LiveStateView}, streams=EVENT_STREAM),
)
