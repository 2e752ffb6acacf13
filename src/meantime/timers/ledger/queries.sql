-- fragment: account
-- What has changed (`sums`, by minute) is added to the accounts.
by_minute AS (
    INSERT INTO timer_minutes AS kept (minute, requested, fired, cancelled, rejected, pending)
    SELECT minute, requested, fired, cancelled, rejected, pending FROM sums ORDER BY minute
        ON CONFLICT (minute) DO UPDATE
       SET requested = kept.requested + EXCLUDED.requested,
           fired = kept.fired + EXCLUDED.fired,
           cancelled = kept.cancelled + EXCLUDED.cancelled,
           rejected = kept.rejected + EXCLUDED.rejected,
           pending = kept.pending + EXCLUDED.pending
)
UPDATE timer_totals AS kept
   SET requested = kept.requested + added.requested,
       fired = kept.fired + added.fired,
       cancelled = kept.cancelled + added.cancelled,
       rejected = kept.rejected + added.rejected,
       pending = kept.pending + added.pending
  FROM (
    SELECT sum(requested) AS requested, sum(fired) AS fired, sum(cancelled) AS cancelled, sum(rejected) AS rejected,
           sum(pending) AS pending
      FROM sums
  ) AS added
 WHERE added.requested IS NOT NULL

-- name: note
-- A node has written these to Kafka; the ledger counts them when it reads them there. Sorted, as everywhere, so that two
-- batches never wait for each other.
INSERT INTO timers (token, second, state)
SELECT token, second, -1
  FROM unnest(%(tokens)s::text[], %(seconds)s::bigint[]) AS given (token, second)
 ORDER BY token, second
    ON CONFLICT (token, second) DO NOTHING;

-- name: note_cancelled
-- Kafka has the cancel in time: nothing can fire any more.
UPDATE timers SET cancelled = true WHERE token = %(token)s AND second = %(second)s AND state IN (-1, 0);

-- name: apply
-- What the ledger has read, one state for all: 0 requested, 1 fired, 2 cancelled by the dispatcher, 3 rejected, 4 cancel asked
-- for in time, by Kafka's clock; only when a dispatcher says so too, `ended_at_ms` is set. A timer that fired twice counts twice,
-- so that it shows as a difference. The snapshot of `before` is the same as that of the upsert, hence it holds the states that
-- the upsert replaces.
WITH given AS (
    SELECT token, second, %(state)s::smallint AS state, at_ms
      FROM unnest(%(tokens)s::text[], %(seconds)s::bigint[], %(at_ms)s::bigint[]) AS given (token, second, at_ms)
), before AS (
    SELECT found.token, found.second, found.state
      FROM given
     CROSS JOIN LATERAL (
        SELECT token, second, state FROM timers WHERE timers.token = given.token AND timers.second = given.second LIMIT 1
     ) AS found
), changed AS (
    INSERT INTO timers AS known (token, second, state, ended_at_ms, reason)
    SELECT token, second, state, at_ms, %(reason)s FROM given ORDER BY token, second
        ON CONFLICT (token, second) DO UPDATE
       SET state = CASE WHEN EXCLUDED.state = 4 OR (EXCLUDED.state = 0 AND known.state = 4) THEN 2 ELSE EXCLUDED.state END,
           ended_at_ms = coalesce(known.ended_at_ms, EXCLUDED.ended_at_ms),
           reason = coalesce(known.reason, EXCLUDED.reason)
     WHERE EXCLUDED.state = 1
        OR (EXCLUDED.state = 0 AND known.state IN (-1, 4))
        OR (EXCLUDED.state = 2 AND (known.state IN (-1, 0, 4) OR (known.state = 2 AND known.ended_at_ms IS NULL)))
        OR (EXCLUDED.state IN (3, 4) AND known.state IN (-1, 0))
    RETURNING token, second, state
), moved AS (
    SELECT changed.second / 60 AS minute, changed.state AS now, coalesce(before.state, -1) AS was
      FROM changed LEFT JOIN before ON before.token = changed.token AND before.second = changed.second
), sums AS (
    SELECT minute,
           count(*) FILTER (WHERE now BETWEEN 0 AND 3) - count(*) FILTER (WHERE was BETWEEN 0 AND 3) AS requested,
           count(*) FILTER (WHERE now = 1) AS fired,
           count(*) FILTER (WHERE now = 2) - count(*) FILTER (WHERE was = 2) AS cancelled,
           count(*) FILTER (WHERE now = 3) - count(*) FILTER (WHERE was = 3) AS rejected,
           count(*) FILTER (WHERE now = 0) - count(*) FILTER (WHERE was = 0) AS pending
      FROM moved
     GROUP BY minute
),
{account};

-- name: request
-- What `apply` does with state 0, which nearly all is that comes in bursts: what a timer was before follows from what it is now.
WITH changed AS (
    INSERT INTO timers AS known (token, second, state)
    SELECT token, second, 0 FROM unnest(%(tokens)s::text[], %(seconds)s::bigint[]) AS given (token, second) ORDER BY token, second
        ON CONFLICT (token, second) DO UPDATE SET state = CASE WHEN known.state = 4 THEN 2 ELSE 0 END
     WHERE known.state IN (-1, 4)
    RETURNING second / 60 AS minute, state
), sums AS (
    SELECT minute, count(*) AS requested, 0 AS fired, count(*) FILTER (WHERE state = 2) AS cancelled, 0 AS rejected,
           count(*) FILTER (WHERE state = 0) AS pending
      FROM changed
     GROUP BY minute
),
{account};

-- name: find
-- All timers of a token; it may have been used for several seconds.
SELECT token, second, state, cancelled, ended_at_ms, reason FROM timers WHERE token = %(token)s ORDER BY second;

-- name: entries
-- Asked by dispatchers about timers so late that they may have ended before.
SELECT found.token, found.second, found.state, found.cancelled, found.ended_at_ms, found.reason
  FROM unnest(%(tokens)s::text[], %(seconds)s::bigint[]) AS given (token, second)
 CROSS JOIN LATERAL (
    SELECT * FROM timers WHERE timers.token = given.token AND timers.second = given.second LIMIT 1
 ) AS found;

-- name: pending_about
-- Roughly how many timers are pending in a range.
SELECT coalesce(sum(pending), 0)::bigint AS pending FROM timer_minutes
 WHERE minute >= %(from_s)s / 60 AND minute <= %(to_s)s / 60;

-- name: load_by_second
SELECT (second - %(from_s)s) / %(step_s)s AS slot, count(*) AS pending
  FROM timers
 WHERE second >= %(from_s)s AND second < %(to_s)s AND state <= 0 AND NOT cancelled
 GROUP BY 1;

-- name: load_by_minute
SELECT (minute * 60 - %(from_s)s) / %(step_s)s AS slot, sum(pending)::bigint AS pending
  FROM timer_minutes
 WHERE minute >= %(from_s)s / 60 AND minute * 60 < %(to_s)s
 GROUP BY 1;

-- name: totals
SELECT requested, fired, cancelled, rejected, pending,
       (SELECT coalesce(sum(pending), 0)::bigint FROM timer_minutes WHERE minute < %(overdue_minute)s AND pending > 0) AS overdue
  FROM timer_totals;

-- name: oldest_pending
SELECT min(minute) * 60 AS second FROM timer_minutes WHERE pending > 0;

-- name: forget
-- What has ended is forgotten after some time; what is pending never is.
DELETE FROM timers
 WHERE (token, second) IN (
    SELECT token, second FROM timers WHERE second < %(before_s)s AND state > 0 ORDER BY second LIMIT %(most)s
 );

-- name: agree_on_shares
-- Fewer partitions than were agreed on are those of a topic that was made anew.
INSERT INTO timer_shares AS agreed (shares) VALUES (%(partitions)s)
    ON CONFLICT (single) DO UPDATE SET shares = least(agreed.shares, EXCLUDED.shares)
RETURNING shares;

-- name: progress
SELECT topic, partition, next_offset FROM timer_progress;

-- name: begin_progress
INSERT INTO timer_progress (topic, partition, next_offset) VALUES (%(topic)s, %(partition)s, 0) ON CONFLICT DO NOTHING;

-- name: advance
-- Nothing is touched unless nobody else has moved on in the meantime.
UPDATE timer_progress SET next_offset = %(next_offset)s
 WHERE topic = %(topic)s AND partition = %(partition)s AND next_offset = %(offset)s;

-- name: report
INSERT INTO timer_reports (kind, name, at_ms, report) VALUES (%(kind)s, %(name)s, %(at_ms)s, %(report)s)
    ON CONFLICT (kind, name) DO UPDATE SET at_ms = EXCLUDED.at_ms, report = EXCLUDED.report;

-- name: reports
SELECT kind, name, at_ms, report FROM timer_reports WHERE at_ms > %(since_ms)s;

-- name: forget_reports
-- What the oscillator said last tells where it has to go on, however long it was away.
DELETE FROM timer_reports WHERE at_ms < %(before_ms)s AND kind <> 'oscillator';
