-- Timers: the ledger. What is pending lives in Spark's state; this is what is known about it.

-- state: -1 written to Kafka by a node and not yet counted, 0 pending, 1 fired, 2 cancelled, 3 rejected, 4 a cancel without a
-- timer. cancelled: a node has been promised the cancellation and the ledger has not seen it yet. No column that changes
-- is indexed, so that ending a timer touches no index.
CREATE TABLE timers (
    second bigint NOT NULL,
    fired_at_ms bigint,
    state smallint NOT NULL,
    cancelled boolean NOT NULL DEFAULT false,
    token text COLLATE "C" NOT NULL,
    PRIMARY KEY (token, second)
) WITH (fillfactor = 75);

CREATE INDEX timers_by_second ON timers (second);

-- The ledger per minute of the timers' seconds, kept as timers come and go.
CREATE TABLE timer_minutes (
    minute bigint PRIMARY KEY,
    requested bigint NOT NULL,
    fired bigint NOT NULL,
    cancelled bigint NOT NULL,
    rejected bigint NOT NULL,
    pending bigint NOT NULL
) WITH (fillfactor = 50);

-- How far the ledger has read in Kafka, moved in one transaction with what was read.
CREATE TABLE timer_progress (
    topic text NOT NULL,
    partition int NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- What oscillators, the Spark job, dispatchers and ledgers last said of themselves.
CREATE TABLE timer_reports (
    kind text NOT NULL,
    name text NOT NULL,
    at_ms bigint NOT NULL,
    report jsonb NOT NULL,
    PRIMARY KEY (kind, name)
);
