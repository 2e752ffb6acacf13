-- Schedules: what recurs.

-- declaration is what a user asked for; label is its target as lists are filtered by it. Everything up to cursor_ms has been
-- dealt with; next_at_ms is the first instant after it, work_at_ms when a leader has to look at the schedule. revision changes
-- with every write, version with those of users. A deleted schedule stays for a while, so that its versions go on.
CREATE TABLE schedules (
    id text COLLATE "C" PRIMARY KEY,
    version int NOT NULL,
    revision bigint NOT NULL,
    declaration jsonb NOT NULL,
    label text COLLATE "C" NOT NULL,
    time_zone text NOT NULL,
    paused boolean NOT NULL,
    note text,
    cursor_ms bigint NOT NULL,
    next_at_ms bigint,
    work_at_ms bigint,
    last_at_ms bigint,
    firings bigint NOT NULL,
    tzdata text NOT NULL,
    moved jsonb,
    created_at_ms bigint NOT NULL,
    changed_at_ms bigint NOT NULL,
    deleted_at_ms bigint
);
-- Only what has to be worked on is in it: an idle look costs the same with ten schedules and with a million.
CREATE INDEX schedules_work ON schedules (work_at_ms) WHERE work_at_ms IS NOT NULL;
CREATE INDEX schedules_label ON schedules (label, id) WHERE deleted_at_ms IS NULL;
CREATE INDEX schedules_moved ON schedules (id) WHERE moved IS NOT NULL;
CREATE INDEX schedules_zone ON schedules (time_zone, id) WHERE deleted_at_ms IS NULL;
CREATE INDEX schedules_deleted ON schedules (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;

-- One instant of a schedule and what became of it. state: 0 a timer that is being set, 1 fired, 2 skipped, 3 missed,
-- 4 cancelled, 5 a timer that is being cancelled. due_at_ms is the instant with its jitter; topic_id is 0 for timers.
CREATE TABLE schedule_firings (
    schedule_id text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    due_at_ms bigint NOT NULL,
    version int NOT NULL,
    state smallint NOT NULL,
    why text,
    label text NOT NULL,
    target_id text COLLATE "C" NOT NULL,
    topic_id int NOT NULL,
    number bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    PRIMARY KEY (schedule_id, at_ms)
);
CREATE INDEX schedule_firings_unfinished ON schedule_firings (schedule_id) WHERE state IN (0, 5);
CREATE INDEX schedule_firings_expired ON schedule_firings (expires_at_ms);

-- Who leads: what an earlier leader writes names an earlier epoch, and changes nothing.
CREATE TABLE schedule_leader (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    epoch bigint NOT NULL,
    node_id text NOT NULL
);
INSERT INTO schedule_leader (epoch, node_id) VALUES (0, '');

-- The zones in use as a release of tzdata has them: [[at, before, after], ...] of the coming years. After an upgrade they tell
-- which firings have moved.
CREATE TABLE schedule_zones (
    name text PRIMARY KEY,
    tzdata text NOT NULL,
    first_offset int NOT NULL,
    borders jsonb NOT NULL
);

-- The version of the schedule that made a message; its id and instant are in the id of the message. Most have none.
ALTER TABLE topic_messages ADD COLUMN schedule_version int;
