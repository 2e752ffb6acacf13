-- Subscriptions: who reads which event types together, and how far they have got.

-- event_types is sorted; event_types_key is the same as one text, for the identity of a subscription.
CREATE TABLE subscriptions (
    id uuid PRIMARY KEY,
    owning_application text NOT NULL,
    event_types text[] NOT NULL,
    event_types_key text NOT NULL,
    consumer_group text NOT NULL,
    read_from text NOT NULL CHECK (read_from IN ('begin', 'end', 'cursors')),
    initial_cursors jsonb NOT NULL,
    access jsonb,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    UNIQUE (owning_application, consumer_group, event_types_key)
);
CREATE INDEX subscriptions_newest ON subscriptions (created_at_ms DESC, id);

-- Everything up to (ord, committed_offset) has been committed. stream_id is the stream that may commit, on node_id; claim
-- grows with every stream that takes the partition, so a late one is refused.
CREATE TABLE subscription_cursors (
    subscription_id uuid NOT NULL REFERENCES subscriptions (id) ON DELETE CASCADE,
    event_type text NOT NULL,
    partition int NOT NULL,
    ord int NOT NULL,
    committed_offset bigint NOT NULL,
    stream_id uuid,
    node_id text,
    claim bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (subscription_id, event_type, partition)
);
