-- Schedules and their firings. Every statement that compares instants takes now_ms. Who changes a schedule locks its row first
-- and names the revision that was read, so that two of them never both win.

-- fragment: columns
s.id, s.version, s.revision, s.declaration::text AS declaration, s.paused, s.note, s.cursor_ms, s.next_at_ms, s.last_at_ms,
s.firings, s.tzdata, s.moved::text AS moved, s.created_at_ms, s.changed_at_ms

-- name: find
-- Also one that was deleted a while ago, whose deleted_at_ms says so.
SELECT
    {columns}
    , s.deleted_at_ms
FROM schedules AS s WHERE s.id = %(id)s

-- name: page
SELECT
    {columns}
FROM schedules AS s
WHERE s.deleted_at_ms IS NULL AND s.id > %(after)s AND s.id >= %(prefix)s AND s.id < %(beyond)s
  AND (%(paused)s::boolean IS NULL OR s.paused = %(paused)s::boolean)
  AND (NOT %(moved)s::boolean OR s.moved IS NOT NULL)
ORDER BY s.id LIMIT %(limit)s

-- name: page_of_target
SELECT
    {columns}
FROM schedules AS s
WHERE s.deleted_at_ms IS NULL AND s.label = %(label)s AND s.id > %(after)s AND s.id >= %(prefix)s AND s.id < %(beyond)s
  AND (%(paused)s::boolean IS NULL OR s.paused = %(paused)s::boolean)
  AND (NOT %(moved)s::boolean OR s.moved IS NOT NULL)
ORDER BY s.id LIMIT %(limit)s

-- name: page_of_zone
SELECT
    {columns}
FROM schedules AS s
WHERE s.deleted_at_ms IS NULL AND s.time_zone = %(zone)s AND s.id > %(after)s
ORDER BY s.id LIMIT %(limit)s

-- name: due
-- What a leader has to look at now, the most urgent first.
SELECT
    {columns}
FROM schedules AS s WHERE s.work_at_ms <= %(now_ms)s ORDER BY s.work_at_ms LIMIT %(limit)s

-- name: postpone
-- What could not be planned is looked at again later, and holds up nobody until then.
UPDATE schedules SET work_at_ms = %(again_at_ms)s, revision = revision + 1
WHERE id = %(id)s AND revision = %(revision)s AND EXISTS (SELECT 1 FROM schedule_leader WHERE epoch = %(epoch)s)

-- name: lead
-- Greater than every epoch before, also when ZooKeeper has forgotten its own.
UPDATE schedule_leader SET epoch = greatest(epoch + 1, %(epoch)s), node_id = %(node_id)s RETURNING epoch

-- name: epoch
SELECT epoch FROM schedule_leader

-- name: advance
-- The one statement that fires: messages, the rows of their firings and the cursors, or nothing of a schedule that has changed
-- since it was read, and nothing at all by a former leader (epoch 0: a user who fires, not a leader). A firing that is there
-- already is not made again. Timers are recorded as being set, before Kafka is told. While timers of the version before are being
-- cancelled, who is patient does nothing: until that is settled nobody knows which instants are free.
WITH leader AS (
    SELECT epoch FROM schedule_leader WHERE epoch = %(epoch)s FOR SHARE
), held AS (
    SELECT s.id, x.cursor_ms, x.next_at_ms, x.work_at_ms
    FROM unnest(%(ids)s::text[], %(revisions)s::bigint[], %(cursors)s::bigint[], %(nexts)s::bigint[], %(works)s::bigint[])
         AS x (id, revision, cursor_ms, next_at_ms, work_at_ms)
    JOIN schedules AS s ON s.id = x.id
    WHERE s.revision = x.revision AND s.deleted_at_ms IS NULL AND (%(epoch)s = 0 OR NOT s.paused)
      AND (%(epoch)s = 0 OR EXISTS (SELECT 1 FROM leader))
      AND (NOT %(patient)s OR NOT EXISTS (SELECT 1 FROM schedule_firings AS c WHERE c.schedule_id = s.id AND c.state = 5))
    ORDER BY s.id
    FOR UPDATE OF s
), wanted AS (
    SELECT f.*, o.state IS NOT NULL AS again,
        f.previous <> '' AND f.topic_id > 0 AND EXISTS (
            SELECT 1 FROM topic_messages AS p WHERE p.id = f.previous AND p.topic_id = f.topic_id AND p.stage < 3
        ) AS overlaps
    FROM unnest(%(f_ids)s::text[], %(f_ats)s::bigint[], %(f_dues)s::bigint[], %(f_versions)s::int[], %(f_states)s::int[],
         %(f_whys)s::text[], %(f_labels)s::text[], %(f_targets)s::text[], %(f_topics)s::int[], %(f_buckets)s::int[],
         %(f_groups)s::text[], %(f_kinds)s::boolean[], %(f_bodies)s::bytea[], %(f_previous)s::text[], %(f_numbers)s::bigint[],
         %(f_expires)s::bigint[])
         AS f (schedule_id, at_ms, due_at_ms, version, state, why, label, target_id, topic_id, bucket_id, producer_group,
               is_json, body, previous, number, expires_at_ms)
    JOIN held ON held.id = f.schedule_id
    LEFT JOIN schedule_firings AS o ON o.schedule_id = f.schedule_id AND o.at_ms = f.at_ms
    WHERE o.state IS NULL OR o.state IN (2, 3, 4)
), made AS (
    INSERT INTO topic_messages AS m (topic_id, id, at_ms, created_for_ms, bucket_id, version, attempts, stage, is_json,
        producer_group, body, schedule_version)
    SELECT w.topic_id, w.target_id, greatest(w.due_at_ms, %(now_ms)s), w.due_at_ms, w.bucket_id, 1, 0, 0, w.is_json,
        w.producer_group, w.body, w.version
    FROM wanted AS w
    WHERE w.topic_id > 0 AND w.state = 1 AND NOT w.overlaps
      AND EXISTS (SELECT 1 FROM topics AS t WHERE t.topic_id = w.topic_id AND t.deleted_at_ms IS NULL)
    ON CONFLICT (id, topic_id) DO UPDATE
    SET at_ms = excluded.at_ms, due_at_ms = NULL, created_for_ms = excluded.created_for_ms, version = 1, attempts = 0,
        stage = 0, is_json = excluded.is_json, producer_group = excluded.producer_group, lock_consumer_id = NULL,
        dead_letter = NULL, history = NULL, body = excluded.body, schedule_version = excluded.schedule_version
    WHERE m.stage = 3 AND m.due_at_ms <= %(now_ms)s
    RETURNING m.topic_id, m.id, m.at_ms, m.bucket_id
), recorded AS (
    INSERT INTO schedule_firings AS r (schedule_id, at_ms, due_at_ms, version, state, why, label, target_id, topic_id, number,
        created_at_ms, expires_at_ms)
    SELECT w.schedule_id, w.at_ms, w.due_at_ms, w.version,
        CASE WHEN w.topic_id > 0 AND w.state = 1 AND made.id IS NULL THEN 2 ELSE w.state END,
        CASE WHEN w.overlaps THEN 'the message before, ' || w.previous || ', is still there (overlap is skip)'
             WHEN w.topic_id > 0 AND w.state = 1 AND made.id IS NULL THEN 'the topic is gone, or has a message of this id'
             ELSE w.why END,
        w.label,
        CASE WHEN w.topic_id = 0 AND w.state = 0 AND w.again THEN w.target_id || ':' || w.version ELSE w.target_id END,
        w.topic_id, w.number, %(now_ms)s, w.expires_at_ms
    FROM wanted AS w
    LEFT JOIN made ON made.id = w.target_id AND made.topic_id = w.topic_id
    ON CONFLICT (schedule_id, at_ms) DO UPDATE
    SET due_at_ms = excluded.due_at_ms, version = excluded.version, state = excluded.state, why = excluded.why,
        label = excluded.label, target_id = excluded.target_id, topic_id = excluded.topic_id, number = excluded.number,
        created_at_ms = excluded.created_at_ms, expires_at_ms = excluded.expires_at_ms
    WHERE r.state IN (2, 3, 4)
    RETURNING r.schedule_id, r.at_ms, r.due_at_ms, r.version, r.state, r.why, r.label, r.target_id, r.topic_id, r.number,
        r.created_at_ms
), counted AS (
    SELECT schedule_id, count(*) AS firings, max(at_ms) AS last_at_ms FROM recorded WHERE state IN (0, 1) GROUP BY schedule_id
), moved AS (
    UPDATE schedules AS s
    SET cursor_ms = h.cursor_ms, next_at_ms = h.next_at_ms, work_at_ms = h.work_at_ms, revision = s.revision + 1,
        last_at_ms = greatest(s.last_at_ms, c.last_at_ms), firings = s.firings + coalesce(c.firings, 0)
    FROM held AS h LEFT JOIN counted AS c ON c.schedule_id = h.id
    WHERE s.id = h.id
    RETURNING s.id
)
SELECT 'moved' AS kind, moved.id AS schedule_id, NULL::bigint AS at_ms, NULL::bigint AS due_at_ms, NULL::int AS version,
    NULL::int AS state, NULL::text AS why, NULL::text AS label, NULL::text AS target_id, NULL::int AS topic_id,
    NULL::bigint AS number, NULL::bigint AS created_at_ms
FROM moved
UNION ALL
SELECT 'firing', schedule_id, at_ms, due_at_ms, version, state, why, label, target_id, topic_id, number, created_at_ms
FROM recorded

-- fragment: back
-- What was set ahead is taken back: messages that nobody has and that are not due yet are removed; timers are marked, because
-- Kafka has to be told. What is neither was too late.
ahead AS (
    SELECT f.* FROM schedule_firings AS f JOIN held ON held.id = f.schedule_id
    WHERE f.state IN (0, 1) AND f.due_at_ms > %(now_ms)s AND f.at_ms > %(from_ms)s
), removed AS (
    DELETE FROM topic_messages AS m USING ahead AS a
    WHERE m.id = a.target_id AND m.topic_id = a.topic_id AND m.schedule_version = a.version AND m.lock_consumer_id IS NULL
      AND m.attempts = 0 AND m.stage = 0 AND m.at_ms > %(now_ms)s
    RETURNING a.schedule_id, a.at_ms
), cancelled AS (
    UPDATE schedule_firings AS f SET state = 4, why = %(why)s FROM removed AS r
    WHERE f.schedule_id = r.schedule_id AND f.at_ms = r.at_ms
    RETURNING f.schedule_id, f.at_ms
), cancelling AS (
    UPDATE schedule_firings AS f SET state = 5, why = %(why)s FROM ahead AS a
    WHERE f.schedule_id = a.schedule_id AND f.at_ms = a.at_ms AND f.topic_id = 0
    RETURNING f.schedule_id, f.at_ms, f.due_at_ms, f.version, f.state, f.why, f.label, f.target_id, f.topic_id, f.number,
        f.created_at_ms
), late AS (
    SELECT a.schedule_id, a.at_ms FROM ahead AS a
    WHERE a.topic_id > 0 AND NOT EXISTS (SELECT 1 FROM removed AS r WHERE r.schedule_id = a.schedule_id AND r.at_ms = a.at_ms)
)

-- fragment: taken
UNION ALL
SELECT 'cancelling', schedule_id, at_ms, due_at_ms, version, state, why, label, target_id, topic_id, number, created_at_ms
FROM cancelling
UNION ALL
SELECT 'late', schedule_id, at_ms, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM late

-- fragment: done
SELECT 'done' AS kind, done.id AS schedule_id, NULL::bigint AS at_ms, NULL::bigint AS due_at_ms, NULL::int AS version,
    NULL::int AS state, NULL::text AS why, NULL::text AS label, NULL::text AS target_id, NULL::int AS topic_id,
    NULL::bigint AS number, NULL::bigint AS created_at_ms
FROM done

-- name: add
-- A new schedule, or one that was deleted and begins anew with the next version.
INSERT INTO schedules AS s (id, version, revision, declaration, label, time_zone, paused, note, cursor_ms, next_at_ms,
    work_at_ms, firings, tzdata, created_at_ms, changed_at_ms)
VALUES (%(id)s, 1, 1, %(declaration)s, %(label)s, %(time_zone)s, %(paused)s, %(note)s, %(now_ms)s, %(next_at_ms)s,
    %(work_at_ms)s, 0, %(tzdata)s, %(now_ms)s, %(now_ms)s)
ON CONFLICT (id) DO UPDATE
SET version = s.version + 1, revision = s.revision + 1, declaration = excluded.declaration, label = excluded.label,
    time_zone = excluded.time_zone, paused = excluded.paused, note = excluded.note, cursor_ms = excluded.cursor_ms,
    next_at_ms = excluded.next_at_ms, work_at_ms = excluded.work_at_ms, last_at_ms = NULL, firings = 0,
    tzdata = excluded.tzdata, moved = NULL, created_at_ms = excluded.created_at_ms, changed_at_ms = excluded.changed_at_ms,
    deleted_at_ms = NULL
WHERE s.deleted_at_ms IS NOT NULL
RETURNING s.id

-- name: change
-- By a user: another declaration, paused or not. from_ms: instants up to it stay as they are.
WITH held AS (
    SELECT id FROM schedules WHERE id = %(id)s AND revision = %(revision)s AND deleted_at_ms IS NULL FOR UPDATE
),
{back}
, done AS (
    UPDATE schedules AS s
    SET version = s.version + 1, revision = s.revision + 1, declaration = %(declaration)s, label = %(label)s,
        time_zone = %(time_zone)s, paused = %(paused)s, note = %(note)s, cursor_ms = %(now_ms)s, next_at_ms = %(next_at_ms)s,
        work_at_ms = %(work_at_ms)s, tzdata = %(tzdata)s, moved = NULL, changed_at_ms = %(now_ms)s,
        firings = s.firings - (SELECT count(*) FROM cancelled),
        last_at_ms = (SELECT max(f.at_ms) FROM schedule_firings AS f
                      WHERE f.schedule_id = s.id AND f.state = 1 AND f.at_ms NOT IN (SELECT c.at_ms FROM cancelled AS c))
    FROM held WHERE s.id = held.id
    RETURNING s.id
)
{done}
{taken}

-- name: delete
WITH held AS (
    SELECT id FROM schedules WHERE id = %(id)s AND revision = %(revision)s AND deleted_at_ms IS NULL FOR UPDATE
),
{back}
, done AS (
    UPDATE schedules AS s
    SET revision = s.revision + 1, deleted_at_ms = %(now_ms)s, next_at_ms = NULL, work_at_ms = NULL, moved = NULL
    FROM held WHERE s.id = held.id
    RETURNING s.id
)
{done}
{taken}

-- name: settle
-- How timers ended up that were being set or cancelled: only those that are still as they were read. One that was cancelled
-- does not count as a firing.
WITH settled AS (
    UPDATE schedule_firings AS f SET state = x.state, why = coalesce(x.why, f.why)
    FROM unnest(%(ids)s::text[], %(ats)s::bigint[], %(befores)s::int[], %(states)s::int[], %(whys)s::text[],
         %(targets)s::text[]) AS x (schedule_id, at_ms, before, state, why, target_id)
    WHERE f.schedule_id = x.schedule_id AND f.at_ms = x.at_ms AND f.state = x.before AND f.target_id = x.target_id
    RETURNING f.schedule_id, f.state
), taken AS (
    SELECT schedule_id, count(*) AS firings FROM settled WHERE state <> 1 GROUP BY schedule_id
)
UPDATE schedules AS s SET firings = s.firings - taken.firings, revision = s.revision + 1
FROM taken WHERE s.id = taken.schedule_id

-- name: unfinished
SELECT f.schedule_id, f.at_ms, f.due_at_ms, f.version, f.state, f.why, f.label, f.target_id, f.topic_id, f.number,
    f.created_at_ms
FROM schedule_firings AS f
WHERE f.state IN (0, 5) AND f.created_at_ms <= %(before_ms)s
ORDER BY f.created_at_ms LIMIT %(limit)s

-- name: firings
SELECT f.schedule_id, f.at_ms, f.due_at_ms, f.version, f.state, f.why, f.label, f.target_id, f.topic_id, f.number,
    f.created_at_ms
FROM schedule_firings AS f
WHERE f.schedule_id = %(id)s AND f.at_ms >= %(from_ms)s AND f.at_ms < %(to_ms)s
ORDER BY f.at_ms DESC LIMIT %(limit)s

-- name: last_fired
-- The last instant of each of these schedules that has come.
SELECT x.id, (
    SELECT f.at_ms FROM schedule_firings AS f
    WHERE f.schedule_id = x.id AND f.at_ms <= %(now_ms)s AND f.state = 1
    ORDER BY f.at_ms DESC LIMIT 1
) AS at_ms
FROM unnest(%(ids)s::text[]) AS x (id)

-- name: fired
-- Those of these instants that have been fired, or are about to be.
SELECT at_ms FROM schedule_firings
WHERE schedule_id = %(id)s AND at_ms = ANY (%(ats)s::bigint[]) AND state IN (0, 1, 5)

-- name: forget_firings
DELETE FROM schedule_firings WHERE (schedule_id, at_ms) IN (
    SELECT schedule_id, at_ms FROM schedule_firings WHERE expires_at_ms <= %(now_ms)s ORDER BY expires_at_ms LIMIT %(limit)s
)

-- name: forget_deleted
DELETE FROM schedules WHERE deleted_at_ms <= %(before_ms)s

-- name: ahead_of_target
-- What is to come, with equal calendars told once: label is a pattern, so that all timers can be asked for.
SELECT s.declaration -> 'recurrence' AS recurrence, s.next_at_ms, s.declaration -> 'max_firings' AS max_firings,
    CASE WHEN s.declaration ->> 'max_firings' IS NULL THEN 0 ELSE s.firings END AS firings, count(*) AS schedules
FROM schedules AS s
WHERE s.label >= %(first)s AND s.label <= %(last)s AND s.deleted_at_ms IS NULL AND NOT s.paused AND s.next_at_ms < %(to_ms)s
GROUP BY 1, 2, 3, 4
LIMIT %(limit)s

-- name: counts
SELECT count(*) AS schedules, count(*) FILTER (WHERE paused) AS paused, count(*) FILTER (WHERE moved IS NOT NULL) AS moved
FROM schedules WHERE deleted_at_ms IS NULL

-- name: zones
SELECT name, tzdata, first_offset, borders::text AS borders FROM schedule_zones

-- name: put_zone
INSERT INTO schedule_zones (name, tzdata, first_offset, borders)
VALUES (%(name)s, %(tzdata)s, %(first_offset)s, %(borders)s)
ON CONFLICT (name) DO UPDATE SET tzdata = excluded.tzdata, first_offset = excluded.first_offset, borders = excluded.borders

-- name: note_zone
-- Where nobody has told it yet.
INSERT INTO schedule_zones (name, tzdata, first_offset, borders)
VALUES (%(name)s, %(tzdata)s, %(first_offset)s, %(borders)s)
ON CONFLICT (name) DO NOTHING

-- name: same_under_release
-- Nothing has moved in these: they only have another release.
UPDATE schedules SET tzdata = %(tzdata)s WHERE time_zone = %(zone)s AND tzdata <> %(tzdata)s AND moved IS NULL

-- name: move
-- The calendar has moved under a schedule: the cursor stays, what follows it is new.
UPDATE schedules
SET next_at_ms = %(next_at_ms)s, work_at_ms = %(work_at_ms)s, tzdata = %(tzdata)s, moved = %(moved)s, revision = revision + 1
WHERE id = %(id)s AND revision = %(revision)s AND deleted_at_ms IS NULL
  AND EXISTS (SELECT 1 FROM schedule_leader WHERE epoch = %(epoch)s)
