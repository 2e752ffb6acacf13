-- Streams: event types, the timelines that hold their events, and the switches that lead from one timeline to the next.

CREATE TABLE storages (
    id text PRIMARY KEY,
    storage_type text NOT NULL,
    bootstrap_servers text NOT NULL,
    settings jsonb NOT NULL,
    is_default boolean NOT NULL,
    created_at_ms bigint NOT NULL
);
CREATE UNIQUE INDEX storages_one_default ON storages (is_default) WHERE is_default;

-- adopt_storage_id is the storage that was the default when the topic was adopted: a fake timeline never moves by itself.
CREATE TABLE event_types (
    name text PRIMARY KEY,
    document jsonb NOT NULL,
    category text NOT NULL,
    partitions int NOT NULL,
    retention_ms bigint NOT NULL,
    cleanup_policy text NOT NULL,
    adopt_topic text,
    adopt_storage_id text,
    version int NOT NULL,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL
);

-- switched_at is when writes came to a timeline, closed_at when they left it. sealed is false for a closed timeline whose
-- storage was dead when it was left: it is sealed as soon as the storage answers again.
CREATE TABLE timelines (
    id uuid PRIMARY KEY,
    event_type text NOT NULL REFERENCES event_types (name) ON DELETE CASCADE,
    ord int NOT NULL,
    storage_id text NOT NULL,
    topic text NOT NULL,
    partitions int NOT NULL,
    created_at_ms bigint NOT NULL,
    switched_at_ms bigint NOT NULL,
    closed_at_ms bigint,
    latest_offsets bigint[],
    cleaned_up_at_ms bigint,
    sealed boolean NOT NULL DEFAULT false,
    deleted boolean NOT NULL DEFAULT false,
    UNIQUE (event_type, ord)
);
CREATE INDEX timelines_cleanup ON timelines (cleaned_up_at_ms) WHERE cleaned_up_at_ms IS NOT NULL AND NOT deleted;
CREATE INDEX timelines_storage ON timelines (storage_id) WHERE NOT deleted;

-- epoch fences: every step names the epoch that it believes in, and whoever takes a switch over raises it.
CREATE TABLE switches (
    id uuid PRIMARY KEY,
    event_type text NOT NULL REFERENCES event_types (name) ON DELETE CASCADE,
    state text NOT NULL CHECK (state IN ('preparing', 'locked', 'sealed', 'committed', 'done', 'failed')),
    epoch int NOT NULL,
    owner text NOT NULL,
    owner_session text NOT NULL,
    force boolean NOT NULL,
    old_storage_id text NOT NULL,
    old_topic text NOT NULL,
    old_settings jsonb NOT NULL,
    storage_id text NOT NULL,
    new_topic text NOT NULL,
    timeline_id uuid NOT NULL,
    idempotency_key text,
    started_at_ms bigint NOT NULL,
    finished_at_ms bigint,
    stall_ms double precision,
    error text
);
CREATE UNIQUE INDEX switches_one_running ON switches (event_type)
    WHERE state IN ('preparing', 'locked', 'sealed', 'committed');
CREATE INDEX switches_by_event_type ON switches (event_type, started_at_ms);
CREATE INDEX switches_by_key ON switches (event_type, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- Topics to drop. A row is written before a topic is made and taken back by the transaction that gives the topic a
-- timeline, so that a topic whose maker died is dropped by somebody else.
CREATE TABLE doomed_topics (
    storage_id text NOT NULL,
    topic text NOT NULL,
    not_before_ms bigint NOT NULL,
    PRIMARY KEY (storage_id, topic)
);

-- The last offset of each partition that nodes are known to have acknowledged: where a timeline whose storage is dead ends.
CREATE TABLE acknowledged_offsets (
    storage_id text NOT NULL,
    topic text NOT NULL,
    partition int NOT NULL,
    acked_offset bigint NOT NULL,
    PRIMARY KEY (storage_id, topic, partition)
);
