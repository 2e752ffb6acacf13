-- Timers: what ended when and why, the sums of the ledger, and how timers are shared out.

-- ended_at_ms: when a dispatcher ended it; reason: why it was rejected.
ALTER TABLE timers RENAME COLUMN fired_at_ms TO ended_at_ms;
ALTER TABLE timers ADD COLUMN reason text;

-- The sums over all minutes, moved together with them: the minutes of years are too many to be summed every few seconds.
CREATE TABLE timer_totals (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    requested bigint NOT NULL,
    fired bigint NOT NULL,
    cancelled bigint NOT NULL,
    rejected bigint NOT NULL,
    pending bigint NOT NULL
);
INSERT INTO timer_totals (requested, fired, cancelled, rejected, pending)
SELECT coalesce(sum(requested), 0), coalesce(sum(fired), 0), coalesce(sum(cancelled), 0), coalesce(sum(rejected), 0),
       coalesce(sum(pending), 0)
  FROM timer_minutes;

-- The minutes in which something is pending: the earliest of them are asked for again and again.
CREATE INDEX timer_minutes_pending ON timer_minutes (minute) WHERE pending > 0;

-- The partition of timer-due that a timer belongs to follows from the number of shares, on which all have to agree. It stays
-- when partitions are added to the topic.
CREATE TABLE timer_shares (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    shares int NOT NULL CHECK (shares > 0)
);
