// Written by `make docs` from the table of the API. Do not edit it here.
// deno-fmt-ignore-file

export type AcknowledgementView = { node: string; ms: number };

export type Alive = { status: string };

export type AppDocument = { name: string; workers: number; queues: number; paused: boolean };

export type AppsDocument = { apps: Array<AppDocument> };

export type AuditEntryView = { at_ms: number; actor: string; action: string; target: string; count: number | null; detail: Record<string, unknown> };

export type AuditView = { entries: Array<AuditEntryView>; next: number | null };

export type AuthorizationAttribute = { data_type: string; value: string };

export type BackfillForm = { from_ms: number; to_ms: number; dry_run?: boolean | null };

export type BatchItemResponse = { eid: string | null; publishing_status: string; step: string; detail: string };

export type BatchLine = { cursor: CursorDocument; events?: Array<Record<string, unknown>>; written_at_ms?: Array<number> };

export type BulkChange = { count: number; skipped?: number };

export type ChangedScheduleView = { id: string; version: number; cron?: string; every_ms?: number; phase_ms?: number; at_ms?: Array<number>; time_zone: string; target: ScheduleTarget; body?: unknown; body_b64?: string; on_gap: "after" | "skip"; on_overlap: "both" | "first" | "second"; missed: "all" | "last" | "none"; missed_within_ms: number; overlap: "allow" | "skip"; jitter_ms: number; starts_at_ms: number | null; ends_at_ms: number | null; max_firings: number | null; paused: boolean; note: string | null; next_at_ms: number | null; last_at_ms: number | null; firings: number; tzdata: string; created_at_ms: number; changed_at_ms: number; moved?: MovedFiring; too_late: Array<number> };

export type ChosenPartition = { event_type: string; partition: string | number };

export type ClaimForm = { id: string; version?: number | null; at_ms?: number | null; after_ms?: number | null };

export type ClaimsForm = { leases: Array<ClaimForm>; consumer_id?: string | null };

export type ClockReport = { now_ms: number; offset_ms: number; error_ms: number; peers: Array<PeerReport>; received_us: number; sent_us: number; source_error_us?: number };

export type CommitResultView = { cursor: SubscribedCursor; result: "committed" | "outdated" };

export type CommitResults = { items: Array<CommitResultView> };

export type CommittedCursor = { partition: string; offset: string; event_type: string; cursor_token: string };

export type ConsumerReport = { consumer_id: string; node_id: string; mode: string; buckets: Array<[number, number]>; buffer: number | null; outstanding: number };

export type ConsumersView = { consumers: Array<ConsumerReport> };

export type CountView = { count: number };

export type CountedTopicView = { name: string; bucket_count?: number; max_future_ms?: number; max_lease_ms?: number; max_body_bytes?: number; max_attempts?: number; dead_letter_topic?: string | null; dedupe_ms?: number; retry?: RetryPolicy; counts: Counts };

export type Counts = { waiting: number; processing: number; available: number; dead: number };

export type Created = { id: string | null; status: string; version?: number | null; at_ms?: number | null; bucket_id?: number | null; error?: string | null };

export type CreatedView = { results: Array<Created> };

export type CursorDocument = { partition: string; offset: string };

export type CursorForm = { partition: string | number; offset: string | number };

export type CursorPair = { initial_cursor: CursorForm; final_cursor: CursorForm };

export type CursorShift = { partition: string | number; offset: string | number; shift?: number | null };

export type Cursors = { items: Array<CommittedCursor> };

export type CursorsForm = { items: Array<SubscribedCursor> };

export type DeleteManyForm = { ids?: Array<string> | null; filter?: FilterForm | null; expect?: number | null; dry_run?: boolean };

export type DeletedMany = { results?: Array<DeletedView>; count?: number; skipped?: number };

export type DeletedView = { id: string | null; status: "forbidden" | "leased" | "not_found" | "ok" };

export type DispatcherStatus = { instances: number; held: number; lateness_ms: LatenessStatus; callbacks?: Record<string, number> };

export type Distance = { initial_cursor: CursorDocument; final_cursor: CursorDocument; distance: number };

export type DraftForm = { id?: string | null; at_ms?: number | null; after_ms?: number | null; body?: unknown; body_b64?: string | null };

export type DraftsForm = { messages: Array<DraftForm> };

export type DriftView = { at_ms: number; offset_ms: number };

export type EventTypeAuthorization = { admins: Array<AuthorizationAttribute>; readers: Array<AuthorizationAttribute>; writers: Array<AuthorizationAttribute> };

export type EventTypeChange = { ordering_key_fields?: unknown; ordering_instance_ids?: unknown; audience?: unknown; annotations?: unknown; labels?: unknown; event_owner_selector?: unknown; name?: string | null; authorization?: EventTypeAuthorization | null; owning_application?: string | null; category?: "undefined" | "business" | "data" | null; enrichment_strategies?: Array<"metadata_enrichment"> | null; partition_strategy?: "random" | "hash" | "user_defined" | null; partition_key_fields?: Array<string> | null; compatibility_mode?: "compatible" | "forward" | "none" | null; cleanup_policy?: "delete" | "compact" | "compact_and_delete" | null; schema?: SchemaForm | null; default_statistic?: StatisticForm | null; options?: OptionsChange | null };

export type EventTypeDocument = { ordering_key_fields?: unknown; ordering_instance_ids?: unknown; audience?: unknown; annotations?: unknown; labels?: unknown; event_owner_selector?: unknown; name: string; authorization?: unknown; owning_application: string; category: "undefined" | "business" | "data"; enrichment_strategies: Array<"metadata_enrichment">; partition_strategy: "random" | "hash" | "user_defined"; partition_key_fields: Array<string>; compatibility_mode: "compatible" | "forward" | "none"; cleanup_policy: "delete" | "compact" | "compact_and_delete"; schema: SchemaView; default_statistic: StatisticView; options: OptionsView; created_at: string; updated_at: string; adopt_topic?: string; adopt_storage_id?: string | null };

export type EventTypeForm = { ordering_key_fields?: unknown; ordering_instance_ids?: unknown; audience?: unknown; annotations?: unknown; labels?: unknown; event_owner_selector?: unknown; name: string; authorization?: EventTypeAuthorization | null; owning_application?: string | null; category?: "undefined" | "business" | "data" | null; enrichment_strategies?: Array<"metadata_enrichment"> | null; partition_strategy?: "random" | "hash" | "user_defined" | null; partition_key_fields?: Array<string> | null; compatibility_mode?: "compatible" | "forward" | "none" | null; cleanup_policy?: "delete" | "compact" | "compact_and_delete" | null; schema?: SchemaForm | null; default_statistic?: StatisticForm | null; options?: OptionsForm | null; adopt_topic?: string | null; adopt_storage_id?: string | null };

export type EventTypeReport = { event_type: string; partitions: Array<PartitionReport> };

export type FailedAttempt = { attempt: number; at_ms: number; consumer_id: string; reason: string };

export type FilterForm = { status?: "waiting" | "processing" | "available" | "dead" | null; from_ms?: number | null; to_ms?: number | null; id_prefix?: string | null; ids?: Array<string> | null };

export type FinishForm = { leases: Array<FinishedForm>; consumer_id?: string | null };

export type FinishedForm = { id: string; version?: number | null };

export type FireForm = { at_ms?: number | null };

export type FiredView = { count: number; at_ms: Array<number>; skipped?: number };

export type FiringView = { at_ms: number; due_at_ms: number; state: "cancelled" | "fired" | "missed" | "planned" | "skipped"; why: string | null; id?: string; token?: string; version: number; created_at_ms: number; lateness_ms: number };

export type FiringsView = { firings: Array<FiringView> };

export type FuturesStatus = { batch_ms?: number | null; state_rows?: number | null; lag?: number | null; age_ms?: number | null };

export type IdentityView = { name: string; key_id: string | null; scopes: Array<string> };

export type InitialCursor = { event_type: string; partition: string; offset: string };

export type KafkaForm = { bootstrap_servers: string; settings?: Record<string, string | number | boolean | null> | null };

export type KafkaView = { bootstrap_servers: string; settings: Record<string, string> };

export type KeyForm = { name: string; scopes: Array<string> };

export type KeyView = { id: string; name: string; scopes: Array<string>; created_ms: number; revoked_ms: number | null };

export type KeysView = { keys: Array<KeyView> };

export type KnownTimerView = { token: string; at: number; state: "cancelled" | "fired" | "pending" | "rejected"; fired_at_ms?: number | null; reason?: string | null };

export type LatenessBucket = { le_ms: number | null; count: number };

export type LatenessStatus = { p50: number; p99: number; histogram?: Array<LatenessBucket> };

export type LatestPosition = { offsets: Array<number> };

export type LeaseView = { id: string; version: number; at_ms: number; created_for_ms: number; attempts: number; producer_group: string; body?: unknown; body_b64?: string; dead_letter?: unknown; reason?: string; history?: Array<FailedAttempt>; schedule?: ScheduleOrigin };

export type LeasesView = { leases: Array<LeaseView> };

export type LedgerStatus = { requested: number; fired: number; cancelled: number; rejected: number; pending: number; difference: number; overdue: number; lag: number | null };

export type Link = { href: string };

export type Links = { prev?: Link | null; next?: Link | null };

export type LiveApp = { workers: number; queues: number; unowned: number; paused: boolean };

export type LiveEventType = { publish?: number | null; read?: number | null };

export type LiveLateness = { bounds_ms: Array<number>; counts: Array<number> };

export type LiveNode = { url: string; state: string; reasons: Array<Record<string, string>>; release: string; offset_ms?: number | null; version?: number | null };

export type LiveProblem = { code: string; severity: string; title: string; detail: string; link: string };

export type LiveRates = { publish: number; read: number; create: number; lease: number; delete: number; fire?: number | null };

export type LiveStateView = { now_ms: number; node: string; nodes: Record<string, LiveNode>; rates: LiveRates; event_types: Record<string, LiveEventType>; topics: Record<string, LiveTopic>; apps: Record<string, LiveApp>; lateness: LiveLateness; problems: Record<string, LiveProblem>; timers?: Record<string, unknown> | null };

export type LiveTopic = { create?: number | null; lease?: number | null; delete?: number | null; waiting?: number | null; processing?: number | null; available?: number | null; dead?: number | null; oldest_due_ms?: number | null };

export type Load = { slots: Array<TimerSlot> };

export type LoadView = { slots: Array<Slot>; capacity_per_s?: number | null };

export type LoginForm = { key: string };

export type MessageView = { id: string; at_ms: number; created_for_ms: number; status: "available" | "dead" | "processing" | "waiting"; producer_group: string; lock_consumer_id: string | null; version: number; bucket_id: number; attempts: number; body?: unknown; body_b64?: string; dead_letter?: unknown; reason?: string; history?: Array<FailedAttempt>; schedule?: ScheduleOrigin };

export type MessagesView = { messages: Array<MessageView>; next: string | null };

export type MoveForm = { at_ms?: number | null; after_ms?: number | null; version?: number | null };

export type MoveManyForm = { filter: FilterForm; at_ms?: number | null; after_ms?: number | null; expect?: number | null; dry_run?: boolean };

export type MovedFiring = { from_ms: number | null; to_ms: number | null };

export type MovedView = { id: string; version: number; at_ms: number };

export type NewKeyView = { id: string; name: string; scopes: Array<string>; key: string };

export type NewTimerForm = { at?: number | null; after?: number | null; callback_topic?: string | null; callback_key?: string | null; callback?: unknown; callback_b64?: string | null; token?: string | null };

export type NewTimersForm = { at?: number | null; after?: number | null; callback_topic?: string | null; callback_key?: string | null; callback?: unknown; callback_b64?: string | null; token?: string | null; timers?: Array<NewTimerForm> };

export type NextView = { at_ms: number; at: string; local: string; note: "first of two" | "moved: gap" | "second of two" | null };

export type NextsView = { firings: Array<NextView> };

export type NodeView = { id: string; url: string; state: string; reasons: Array<Reason>; clock_offset_ms: number | null; timelines_version: number | null; release: string; history?: Array<DriftView> };

export type Nodes = { nodes: Array<NodeView> };

export type OptionsChange = { retention_time?: number | null };

export type OptionsForm = { retention_time?: number | null };

export type OptionsView = { retention_time: number };

export type OscillatorStatus = { leader?: string | null; last_tick?: number | null; age_ms?: number | null; lead_s?: number | null };

export type Outcome = { id: string | null; status: string; version?: number | null; at_ms?: number | null };

export type OutcomesView = { results: Array<Outcome> };

export type OwnerChangeView = { at_ms: number; queue: string; event_type: string; partition: string; owner: string | null; former: string | null };

export type Page = { items: Array<SubscriptionDocument>; _links: Links };

export type PartitionDocument = { partition: string; oldest_available_offset: string; newest_available_offset: string; unconsumed_events?: number | null; start_after?: string | null };

export type PartitionReport = { partition: string; state: "unassigned" | "assigned" | "reassigning"; stream_id?: string | null; assignment_type?: "direct" | "auto" | null; unconsumed_events?: number | null; consumer_lag_seconds?: number | null };

export type PauseForm = { note?: string | null };

export type PausePrefixForm = { prefix: string; note?: string | null };

export type PausedView = { count: number; ids: Array<string>; too_late: Record<string, Array<number>> };

export type PeerReport = { id: string; offset_ms: number; rtt_ms: number };

export type PhaseView = { name: string; ms: number };

export type PrefixForm = { prefix: string };

export type PreviewForm = { cron?: string | null; every_ms?: number | null; phase_ms?: number | null; at_ms?: Array<number> | null; time_zone?: string | null; target?: TargetForm | null; body?: unknown; body_b64?: string | null; on_gap?: "after" | "skip" | null; on_overlap?: "both" | "first" | "second" | null; missed?: "all" | "last" | "none" | null; missed_within_ms?: number | null; overlap?: "allow" | "skip" | null; jitter_ms?: number | null; starts_at_ms?: number | null; ends_at_ms?: number | null; max_firings?: number | null; paused?: boolean | null; note?: string | null; version?: number | null; count?: number | null; from_ms?: number | null };

export type Problem = { type: string; title: string; status: number; detail: string; code: string; retryable: boolean };

export type PullForm = { consumer_id?: string | null; limit?: number | null; lease_ms?: number | null; wait_ms?: number | null };

export type QueueDocument = { queue: string; event_type: string; partition: string; owner: string | null; last: string; cursor: string; lag: number | null; paused: boolean; problem?: string | null };

export type QueuesDocument = { queues: Array<QueueDocument> };

export type ReaderForm = { batch_limit?: number | null; stream_limit?: number | null; batch_flush_timeout?: number | null; stream_timeout?: number | null; stream_keep_alive_limit?: number | null; max_uncommitted_events?: number | null; commit_timeout?: number | null; partitions?: Array<ChosenPartition> | null };

export type Readiness = { state: string; reasons: Array<Reason> };

export type Reason = { code: string; detail: string };

export type RedriveForm = { to?: string | null; limit?: number | null };

export type Redriven = { moved: number; skipped: number; reasons?: Record<string, number> };

export type ReleaseForm = { id: string; version?: number | null; at_ms?: number | null; after_ms?: number | null; reason?: string | null };

export type ReleasesForm = { leases: Array<ReleaseForm>; consumer_id?: string | null };

export type ResetForm = { cursor: string };

export type RetryForm = { delay_ms?: number | null; factor?: number | null; max_ms?: number | null; jitter?: number | null };

export type RetryPolicy = { delay_ms?: number; factor?: number; max_ms?: number; jitter?: number };

export type ScheduleForm = { cron?: string | null; every_ms?: number | null; phase_ms?: number | null; at_ms?: Array<number> | null; time_zone?: string | null; target?: TargetForm | null; body?: unknown; body_b64?: string | null; on_gap?: "after" | "skip" | null; on_overlap?: "both" | "first" | "second" | null; missed?: "all" | "last" | "none" | null; missed_within_ms?: number | null; overlap?: "allow" | "skip" | null; jitter_ms?: number | null; starts_at_ms?: number | null; ends_at_ms?: number | null; max_firings?: number | null; paused?: boolean | null; note?: string | null; version?: number | null };

export type ScheduleOrigin = { id: string; version: number; at_ms: number };

export type ScheduleTarget = { topic?: string | null; group?: string | null; event_type?: string | null; kafka_topic?: string | null; key?: string | null };

export type ScheduleView = { id: string; version: number; cron?: string; every_ms?: number; phase_ms?: number; at_ms?: Array<number>; time_zone: string; target: ScheduleTarget; body?: unknown; body_b64?: string; on_gap: "after" | "skip"; on_overlap: "both" | "first" | "second"; missed: "all" | "last" | "none"; missed_within_ms: number; overlap: "allow" | "skip"; jitter_ms: number; starts_at_ms: number | null; ends_at_ms: number | null; max_firings: number | null; paused: boolean; note: string | null; next_at_ms: number | null; last_at_ms: number | null; firings: number; tzdata: string; created_at_ms: number; changed_at_ms: number; moved?: MovedFiring };

export type SchedulesView = { schedules: Array<ScheduleView>; next: string | null };

export type SchemaForm = { type?: "json_schema" | null; schema?: string | Record<string, unknown> | null };

export type SchemaView = { type: "json_schema"; schema: string; version: string; created_at: string };

export type SessionView = { authentication: boolean; identity: IdentityView | null; node: string; release: string };

export type SetTimersView = { token?: string; at?: number; results?: Array<TimerView> };

export type SettingsForm = { bucket_count?: number | null; max_future_ms?: number | null; max_lease_ms?: number | null; max_body_bytes?: number | null; max_attempts?: number | null; dead_letter_topic?: string | null; dedupe_ms?: number | null; retry?: RetryForm | null };

export type Slot = { from_ms: number; waiting: number; processing: number; available: number; planned?: number };

export type StatisticForm = { messages_per_minute?: number | null; message_size?: number | null; read_parallelism?: number | null; write_parallelism?: number | null };

export type StatisticView = { messages_per_minute?: number; message_size?: number; read_parallelism: number; write_parallelism: number };

export type StorageForm = { id: string; storage_type?: "kafka" | null; kafka_configuration: KafkaForm };

export type StorageView = { id: string; storage_type: "kafka"; kafka_configuration: KafkaView; default: boolean };

export type StreamInfo = { debug: string };

export type SubscribedCursor = { partition: string | number; offset: string | number; event_type: string; cursor_token?: unknown };

export type SubscriptionAuthorization = { admins: Array<AuthorizationAttribute>; readers: Array<AuthorizationAttribute> };

export type SubscriptionBatch = { cursor: CommittedCursor; events?: Array<Record<string, unknown>>; info?: StreamInfo };

export type SubscriptionChange = { owning_application: string; event_types: Array<string>; consumer_group?: string | null; read_from?: "begin" | "end" | "cursors" | null; authorization?: SubscriptionAuthorization | null; initial_cursors?: Array<Record<string, unknown>> | null };

export type SubscriptionDocument = { id: string; owning_application: string; event_types: Array<string>; consumer_group: string; read_from: "begin" | "end" | "cursors"; created_at: string; updated_at: string; initial_cursors: Array<InitialCursor>; authorization?: unknown; status?: Array<EventTypeReport> | null };

export type SubscriptionForm = { owning_application: string; event_types: Array<string>; consumer_group?: string | null; read_from?: "begin" | "end" | "cursors" | null; authorization?: SubscriptionAuthorization | null; initial_cursors?: Array<SubscribedCursor> | null };

export type SubscriptionStats = { items: Array<EventTypeReport> };

export type SwitchForm = { storage_id: string; force?: boolean | null };

export type SwitchState = "committed" | "done" | "failed" | "locked" | "preparing" | "sealed";

export type SwitchView = { id: string; state: SwitchState; owner: string; started_at: string; finished_at: string | null; stall_ms: number | null; error: string | null; storage_id: string; force: boolean; overtaken: Array<string>; phases: Array<PhaseView>; acknowledged: Array<AcknowledgementView> };

export type TargetForm = { topic?: string | null; group?: string | null; event_type?: string | null; kafka_topic?: string | null; key?: string | null };

export type TimelineView = { id: string | null; event_type: string; order: number; storage_id: string; topic: string; created_at: string; switched_at: string | null; cleaned_up_at: string | null; deleted: boolean; latest_position: LatestPosition | null };

export type TimerSlot = { from: number; pending: number; planned?: number };

export type TimerView = { token: string; at: number };

export type TimersStatus = { oscillator: OscillatorStatus; futures: FuturesStatus; dispatcher: DispatcherStatus; ledger: LedgerStatus };

export type TooLateView = { too_late: Array<number> };

export type TopicView = { name: string; bucket_count?: number; max_future_ms?: number; max_lease_ms?: number; max_body_bytes?: number; max_attempts?: number; dead_letter_topic?: string | null; dedupe_ms?: number; retry?: RetryPolicy };

export type TopicsView = { topics: Array<TopicView> };

export type WorkerDocument = { worker: string; queues: Array<string>; host?: string | null; pid?: number | null };

export type WorkersDocument = { workers: Array<WorkerDocument> };

export interface Operations {
  "GET /health": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Alive;
  };
  "GET /ready": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Readiness;
  };
  "GET /nodes": {
    path: Record<never, never>;
    query: { history_s?: number };
    body: undefined;
    answer: Nodes;
  };
  "GET /clock": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: ClockReport;
  };
  "GET /metrics": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: string;
  };
  "GET /event-types": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Array<EventTypeDocument>;
  };
  "POST /event-types": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: EventTypeForm;
    answer: EventTypeDocument;
  };
  "GET /event-types/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: EventTypeDocument;
  };
  "PUT /event-types/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: EventTypeChange;
    answer: EventTypeDocument;
  };
  "DELETE /event-types/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  "POST /event-types/{name}/events": {
    path: { name: string };
    query: Record<never, never>;
    body: Array<Record<string, unknown>>;
    answer: Array<BatchItemResponse> | undefined;
  };
  "GET /event-types/{name}/events": {
    path: { name: string };
    query: { batch_limit?: number; stream_limit?: number; batch_flush_timeout?: number; stream_timeout?: number; stream_keep_alive_limit?: number; written_at?: boolean; eager?: boolean };
    body: undefined;
    answer: BatchLine;
  };
  "GET /event-types/{name}/partitions": {
    path: { name: string };
    query: { cursors?: string; written_from_ms?: number };
    body: undefined;
    answer: Array<PartitionDocument>;
  };
  "GET /event-types/{name}/partitions/{partition}": {
    path: { name: string; partition: string };
    query: { consumed_offset?: string };
    body: undefined;
    answer: PartitionDocument;
  };
  "POST /event-types/{name}/cursor-distances": {
    path: { name: string };
    query: Record<never, never>;
    body: Array<CursorPair>;
    answer: Array<Distance>;
  };
  "POST /event-types/{name}/shifted-cursors": {
    path: { name: string };
    query: Record<never, never>;
    body: Array<CursorShift>;
    answer: Array<CursorDocument>;
  };
  "POST /event-types/{name}/cursors-lag": {
    path: { name: string };
    query: Record<never, never>;
    body: Array<CursorForm>;
    answer: Array<PartitionDocument>;
  };
  "POST /subscriptions": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SubscriptionForm;
    answer: SubscriptionDocument;
  };
  "GET /subscriptions": {
    path: Record<never, never>;
    query: { owning_application?: string; event_type?: Array<string>; offset?: number; limit?: number; show_status?: boolean };
    body: undefined;
    answer: Page;
  };
  "GET /subscriptions/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: SubscriptionDocument;
  };
  "PUT /subscriptions/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: SubscriptionChange;
    answer: undefined;
  };
  "DELETE /subscriptions/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  "GET /subscriptions/{id}/stats": {
    path: { id: string };
    query: { show_time_lag?: boolean };
    body: undefined;
    answer: SubscriptionStats;
  };
  "GET /subscriptions/{id}/cursors": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Cursors;
  };
  "POST /subscriptions/{id}/cursors": {
    path: { id: string };
    query: Record<never, never>;
    body: CursorsForm;
    answer: CommitResults | undefined;
  };
  "PATCH /subscriptions/{id}/cursors": {
    path: { id: string };
    query: Record<never, never>;
    body: CursorsForm;
    answer: undefined;
  };
  "GET /subscriptions/{id}/events": {
    path: { id: string };
    query: { batch_limit?: number; stream_limit?: number; batch_flush_timeout?: number; stream_timeout?: number; stream_keep_alive_limit?: number; max_uncommitted_events?: number; commit_timeout?: number };
    body: undefined;
    answer: SubscriptionBatch;
  };
  "POST /subscriptions/{id}/events": {
    path: { id: string };
    query: Record<never, never>;
    body: ReaderForm;
    answer: SubscriptionBatch;
  };
  "GET /storages": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Array<StorageView>;
  };
  "POST /storages": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: StorageForm;
    answer: StorageView;
  };
  "GET /storages/{storage_id}": {
    path: { storage_id: string };
    query: Record<never, never>;
    body: undefined;
    answer: StorageView;
  };
  "DELETE /storages/{storage_id}": {
    path: { storage_id: string };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  "PUT /storages/default/{storage_id}": {
    path: { storage_id: string };
    query: Record<never, never>;
    body: undefined;
    answer: StorageView;
  };
  "GET /event-types/{name}/timelines": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: Array<TimelineView>;
  };
  "POST /event-types/{name}/timelines": {
    path: { name: string };
    query: Record<never, never>;
    body: SwitchForm;
    answer: TimelineView;
  };
  "GET /event-types/{name}/switches": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: Array<SwitchView>;
  };
  "GET /event-types/{name}/switches/{switch_id}": {
    path: { name: string; switch_id: string };
    query: Record<never, never>;
    body: undefined;
    answer: SwitchView;
  };
  "GET /registry/partition-strategies": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Array<string>;
  };
  "GET /registry/enrichment-strategies": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Array<string>;
  };
  "GET /topics": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: TopicsView;
  };
  "GET /topics/{topic}": {
    path: { topic: string };
    query: Record<never, never>;
    body: undefined;
    answer: CountedTopicView;
  };
  "PUT /topics/{topic}": {
    path: { topic: string };
    query: Record<never, never>;
    body: SettingsForm;
    answer: TopicView;
  };
  "DELETE /topics/{topic}": {
    path: { topic: string };
    query: Record<never, never>;
    body: undefined;
    answer: Record<string, unknown>;
  };
  "GET /topics/{topic}/load": {
    path: { topic: string };
    query: { from_ms: number; to_ms: number; step_ms: number };
    body: undefined;
    answer: LoadView;
  };
  "GET /topics/{topic}/count": {
    path: { topic: string };
    query: { status?: "waiting" | "processing" | "available" | "dead"; from_ms?: number; to_ms?: number };
    body: undefined;
    answer: CountView;
  };
  "GET /topics/{topic}/consumers": {
    path: { topic: string };
    query: Record<never, never>;
    body: undefined;
    answer: ConsumersView;
  };
  "POST /topics/{topic}/redrive": {
    path: { topic: string };
    query: Record<never, never>;
    body: RedriveForm;
    answer: Redriven;
  };
  "POST /topics/{topic}/messages": {
    path: { topic: string };
    query: Record<never, never>;
    body: DraftsForm;
    answer: CreatedView;
  };
  "GET /topics/{topic}/messages": {
    path: { topic: string };
    query: { after?: string; limit?: number; producer_group?: string; all?: boolean; status?: "waiting" | "processing" | "available" | "dead"; from_ms?: number; to_ms?: number; id_prefix?: string; bodies?: boolean };
    body: undefined;
    answer: MessagesView;
  };
  "GET /topics/{topic}/messages/{message_id}": {
    path: { topic: string; message_id: string };
    query: { consumer_id?: string; all?: boolean };
    body: undefined;
    answer: MessageView;
  };
  "PATCH /topics/{topic}/messages/{message_id}": {
    path: { topic: string; message_id: string };
    query: Record<never, never>;
    body: MoveForm;
    answer: MovedView;
  };
  "DELETE /topics/{topic}/messages/{message_id}": {
    path: { topic: string; message_id: string };
    query: { version?: number };
    body: undefined;
    answer: undefined;
  };
  "POST /topics/{topic}/messages/move": {
    path: { topic: string };
    query: Record<never, never>;
    body: MoveManyForm;
    answer: BulkChange;
  };
  "POST /topics/{topic}/messages/delete": {
    path: { topic: string };
    query: Record<never, never>;
    body: DeleteManyForm;
    answer: DeletedMany;
  };
  "POST /topics/{topic}/leases": {
    path: { topic: string };
    query: { consumer_id?: string };
    body: PullForm;
    answer: LeasesView;
  };
  "GET /topics/{topic}/leases": {
    path: { topic: string };
    query: { consumer_id?: string; buffer?: number; lease_ms?: number };
    body: undefined;
    answer: LeaseView;
  };
  "POST /topics/{topic}/leases/extend": {
    path: { topic: string };
    query: { consumer_id?: string };
    body: ClaimsForm;
    answer: OutcomesView;
  };
  "POST /topics/{topic}/leases/release": {
    path: { topic: string };
    query: { consumer_id?: string };
    body: ReleasesForm;
    answer: OutcomesView;
  };
  "POST /topics/{topic}/leases/delete": {
    path: { topic: string };
    query: { consumer_id?: string };
    body: FinishForm;
    answer: OutcomesView;
  };
  "POST /timers": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: NewTimersForm;
    answer: SetTimersView;
  };
  "GET /timers/load": {
    path: Record<never, never>;
    query: { at?: number; from?: number; to?: number; step?: number };
    body: undefined;
    answer: Load;
  };
  "GET /timers/status": {
    path: Record<never, never>;
    query: { at?: number };
    body: undefined;
    answer: TimersStatus;
  };
  "GET /timers/{token}": {
    path: { token: string };
    query: { at?: number };
    body: undefined;
    answer: KnownTimerView;
  };
  "DELETE /timers/{token}": {
    path: { token: string };
    query: { at?: number };
    body: undefined;
    answer: TimerView;
  };
  "GET /schedules": {
    path: Record<never, never>;
    query: { prefix?: string; target?: string; paused?: boolean; moved?: boolean; after?: string; limit?: number };
    body: undefined;
    answer: SchedulesView;
  };
  "POST /schedules/preview": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: PreviewForm;
    answer: NextsView;
  };
  "POST /schedules/pause": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: PausePrefixForm;
    answer: PausedView;
  };
  "POST /schedules/resume": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: PrefixForm;
    answer: PausedView;
  };
  "GET /schedules/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: ScheduleView;
  };
  "PUT /schedules/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: ScheduleForm;
    answer: ChangedScheduleView;
  };
  "DELETE /schedules/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: TooLateView | undefined;
  };
  "GET /schedules/{id}/next": {
    path: { id: string };
    query: { count?: number; from_ms?: number };
    body: undefined;
    answer: NextsView;
  };
  "GET /schedules/{id}/firings": {
    path: { id: string };
    query: { from_ms?: number; to_ms?: number; limit?: number };
    body: undefined;
    answer: FiringsView;
  };
  "POST /schedules/{id}/fire": {
    path: { id: string };
    query: Record<never, never>;
    body: FireForm;
    answer: FiredView;
  };
  "POST /schedules/{id}/backfill": {
    path: { id: string };
    query: Record<never, never>;
    body: BackfillForm;
    answer: FiredView;
  };
  "POST /schedules/{id}/pause": {
    path: { id: string };
    query: Record<never, never>;
    body: PauseForm;
    answer: ChangedScheduleView;
  };
  "POST /schedules/{id}/resume": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: ChangedScheduleView;
  };
  "GET /apps": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: AppsDocument;
  };
  "GET /apps/{app}": {
    path: { app: string };
    query: Record<never, never>;
    body: undefined;
    answer: AppDocument;
  };
  "DELETE /apps/{app}": {
    path: { app: string };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  "POST /apps/{app}/pause": {
    path: { app: string };
    query: Record<never, never>;
    body: undefined;
    answer: AppDocument;
  };
  "POST /apps/{app}/resume": {
    path: { app: string };
    query: Record<never, never>;
    body: undefined;
    answer: AppDocument;
  };
  "GET /apps/{app}/workers": {
    path: { app: string };
    query: Record<never, never>;
    body: undefined;
    answer: WorkersDocument;
  };
  "GET /apps/{app}/changes": {
    path: { app: string };
    query: Record<never, never>;
    body: undefined;
    answer: OwnerChangeView;
  };
  "GET /apps/{app}/queues": {
    path: { app: string };
    query: Record<never, never>;
    body: undefined;
    answer: QueuesDocument;
  };
  "GET /apps/{app}/queues/{queue}": {
    path: { app: string; queue: string };
    query: Record<never, never>;
    body: undefined;
    answer: QueueDocument;
  };
  "PUT /apps/{app}/queues/{queue}/last": {
    path: { app: string; queue: string };
    query: Record<never, never>;
    body: ResetForm;
    answer: QueueDocument;
  };
  "POST /apps/{app}/queues/{queue}/pause": {
    path: { app: string; queue: string };
    query: Record<never, never>;
    body: undefined;
    answer: QueueDocument;
  };
  "POST /apps/{app}/queues/{queue}/resume": {
    path: { app: string; queue: string };
    query: Record<never, never>;
    body: undefined;
    answer: QueueDocument;
  };
  "GET /keys": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: KeysView;
  };
  "POST /keys": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: KeyForm;
    answer: NewKeyView;
  };
  "DELETE /keys/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  "GET /audit": {
    path: Record<never, never>;
    query: { from_ms?: number; to_ms?: number; actor?: string; before?: number; limit?: number };
    body: undefined;
    answer: AuditView;
  };
  "POST /console/login": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: LoginForm;
    answer: undefined;
  };
  "POST /console/logout": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  "GET /console/session": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: SessionView;
  };
  "GET /console/events": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: LiveStateView;
  };
}
