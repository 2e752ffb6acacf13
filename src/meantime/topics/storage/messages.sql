-- Every statement that compares instants takes now_ms; none asks the database for the time. Statements over many messages take
-- arrays in the order of the ids, so that two of them lock rows in the same order; a row that they do not return did not
-- meet the conditions.
-- The planner must not be tempted: a plan that is made while the table is empty is kept when it has millions of rows. So what
-- must not be looked up in an index is written in a form that no index serves (topic_id + 0, IS NOT DISTINCT FROM), and
-- the one index that is meant remains. A test looks at all plans.

-- name: insert_messages
-- For ids that are most probably new: a duplicate fails the whole statement. A changed or deleted topic inserts nothing.
-- The arrays are unnested side by side in the list of columns, not as a table, which PostgreSQL would build before reading it.
INSERT INTO topic_messages
    (topic_id, id, at_ms, created_for_ms, bucket_id, version, attempts, stage, is_json, producer_group, body)
SELECT %(topic_id)s, unnest(%(ids)s), unnest(%(ats)s), unnest(%(ats)s), unnest(%(buckets)s), 1, 0, 0, unnest(%(kinds)s),
    unnest(%(groups)s), unnest(%(bodies)s)
WHERE EXISTS (SELECT 1 FROM topics WHERE topic_id = %(topic_id)s AND revision = %(revision)s AND deleted_at_ms IS NULL)

-- name: insert_messages_alike
-- The same where all have one instant, kind and owner, as jobs for now have: less to unpack for every row. What is due already
-- has due_at_ms, which keeps it out of the index on the group.
INSERT INTO topic_messages
    (topic_id, id, at_ms, due_at_ms, created_for_ms, bucket_id, version, attempts, stage, is_json, producer_group, body)
SELECT %(topic_id)s, unnest(%(ids)s), %(at_ms)s, CASE WHEN %(at_ms)s <= %(now_ms)s THEN %(at_ms)s END, %(at_ms)s,
    unnest(%(buckets)s), 1, 0, 0, %(is_json)s, %(producer_group)s, unnest(%(bodies)s)
WHERE EXISTS (SELECT 1 FROM topics WHERE topic_id = %(topic_id)s AND revision = %(revision)s AND deleted_at_ms IS NULL)

-- name: upsert_messages
-- For ids that may exist. One that was deleted, and whose time of being remembered is over, is new again.
INSERT INTO topic_messages AS m
    (topic_id, id, at_ms, created_for_ms, bucket_id, version, attempts, stage, is_json, producer_group, body)
SELECT %(topic_id)s, unnest(%(ids)s), unnest(%(ats)s), unnest(%(ats)s), unnest(%(buckets)s), 1, 0, 0, unnest(%(kinds)s),
    unnest(%(groups)s), unnest(%(bodies)s)
WHERE EXISTS (SELECT 1 FROM topics WHERE topic_id = %(topic_id)s AND revision = %(revision)s AND deleted_at_ms IS NULL)
ON CONFLICT (id, topic_id) DO UPDATE
SET at_ms = excluded.at_ms, due_at_ms = NULL, created_for_ms = excluded.created_for_ms, version = 1, attempts = 0, stage = 0,
    is_json = excluded.is_json, producer_group = excluded.producer_group, lock_consumer_id = NULL, dead_letter = NULL,
    history = NULL, body = excluded.body, schedule_version = NULL
WHERE m.stage = 3 AND m.due_at_ms <= %(now_ms)s
RETURNING m.id

-- fragment: due
-- What is due, in time order: new messages, and those whose lease has run out. `lock` is said of the rows of both scans.
SELECT * FROM (
    SELECT id, at_ms FROM topic_messages
    WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL
      AND at_ms >= %(floor_ms)s AND at_ms <= %(due_ms)s AND (%(everywhere)s OR bucket_id = ANY (%(buckets)s))
    ORDER BY at_ms LIMIT %(limit)s {lock}
) AS untouched
UNION ALL
SELECT * FROM (
    SELECT id, at_ms FROM topic_messages
    WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NOT NULL
      AND at_ms >= %(floor_ms)s AND at_ms <= %(due_ms)s AND (%(everywhere)s OR bucket_id = ANY (%(buckets)s))
    ORDER BY at_ms LIMIT %(limit)s {lock}
) AS expired

-- fragment: lease
-- To one consumer. The rows are found again by an array of ids, which is one scan of the primary key; a join would be a scan
-- per row.
UPDATE topic_messages
SET at_ms = %(now_ms)s + %(lease_ms)s, due_at_ms = at_ms, lock_consumer_id = %(consumer_id)s,
    version = version + 1, attempts = attempts + 1,
    stage = CASE WHEN %(max_attempts)s > 0 AND attempts + 1 >= %(max_attempts)s THEN 1 ELSE 0 END
WHERE id = ANY (ARRAY(
    SELECT id FROM (
        {due}
    ) AS due
    ORDER BY at_ms LIMIT %(limit)s
)) AND topic_id + 0 = %(topic_id)s AND stage + 0 = 0 AND at_ms + 0 <= %(due_ms)s
RETURNING id, version, due_at_ms, created_for_ms, attempts, producer_group, is_json, body, dead_letter::text, history::text, schedule_version

-- name: lease_due
-- The hottest statement: what is due, to one consumer.
{lease lock=FOR UPDATE SKIP LOCKED}

-- name: lease_due_exclusive
-- The same where no other node is known to lease from this topic: the rows are not locked first, which is a tenth of the work.
-- A row that another transaction changes at this moment is waited for, and then leased only if it is still due.
{lease lock=}

-- name: lease_due_shared
-- The same for several consumers at once: the n-th message goes to the consumer whose turn the n-th one is.
WITH due AS MATERIALIZED (
    SELECT id, (%(turns)s)[row_number() OVER (ORDER BY at_ms)::int] AS turn
    FROM (
        {due lock=FOR UPDATE SKIP LOCKED}
    ) AS locked
    ORDER BY at_ms LIMIT %(limit)s
)
UPDATE topic_messages AS m
SET at_ms = %(now_ms)s + (%(leases_ms)s)[due.turn], due_at_ms = m.at_ms, lock_consumer_id = (%(consumers)s)[due.turn],
    version = m.version + 1, attempts = m.attempts + 1,
    stage = CASE WHEN %(max_attempts)s > 0 AND m.attempts + 1 >= %(max_attempts)s THEN 1 ELSE 0 END
FROM due
WHERE m.id = due.id AND m.topic_id + 0 = %(topic_id)s AND m.stage + 0 = 0 AND m.at_ms + 0 <= %(due_ms)s
RETURNING m.id, m.version, m.at_ms, m.due_at_ms, m.created_for_ms, m.attempts, m.lock_consumer_id, m.producer_group, m.is_json,
    m.body, m.dead_letter::text, m.history::text, m.schedule_version

-- name: lease_known
-- What was prefetched, at its due moment, if its version still holds.
UPDATE topic_messages AS m
SET at_ms = %(now_ms)s + x.lease_ms, due_at_ms = m.at_ms, lock_consumer_id = x.consumer_id,
    version = m.version + 1, attempts = m.attempts + 1,
    stage = CASE WHEN %(max_attempts)s > 0 AND m.attempts + 1 >= %(max_attempts)s THEN 1 ELSE 0 END
FROM unnest(%(topic_ids)s, %(ids)s, %(versions)s, %(consumers)s, %(leases_ms)s)
     AS x (topic_id, id, version, consumer_id, lease_ms)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.version = x.version AND m.stage + 0 = 0
  AND m.at_ms + 0 <= %(now_ms)s
RETURNING m.id, m.version, m.at_ms, m.due_at_ms, m.created_for_ms, m.attempts, m.lock_consumer_id, m.producer_group, m.is_json,
    m.body, m.dead_letter::text, m.history::text, m.schedule_version

-- name: upcoming
-- What is or soon becomes due, without touching it: messages that wait, and leases that may run out.
SELECT id, version, bucket_id, at_ms FROM (
    SELECT * FROM (
        SELECT id, version, bucket_id, at_ms FROM topic_messages
        WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL
          AND at_ms >= %(floor_ms)s AND at_ms <= %(until_ms)s
        ORDER BY at_ms LIMIT %(limit)s
    ) AS waiting
    UNION ALL
    SELECT * FROM (
        SELECT id, version, bucket_id, at_ms FROM topic_messages
        WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NOT NULL
          AND at_ms >= %(floor_ms)s AND at_ms <= %(until_ms)s
        ORDER BY at_ms LIMIT %(limit)s
    ) AS leased
) AS soon
ORDER BY at_ms LIMIT %(limit)s

-- name: busy_topics
-- The same question for many topics at once, most of which have nothing: two probes of an index for each.
SELECT x.topic_id FROM unnest(%(topic_ids)s, %(floors)s) AS x (topic_id, floor_ms)
WHERE EXISTS (
    SELECT 1 FROM topic_messages AS m
    WHERE m.topic_id = x.topic_id AND m.stage = 0 AND m.lock_consumer_id IS NULL
      AND m.at_ms >= x.floor_ms AND m.at_ms <= %(until_ms)s
) OR EXISTS (
    SELECT 1 FROM topic_messages AS m
    WHERE m.topic_id = x.topic_id AND m.stage = 0 AND m.lock_consumer_id IS NOT NULL
      AND m.at_ms >= x.floor_ms AND m.at_ms <= %(until_ms)s
)

-- name: held
-- The leases that a returning consumer still has.
SELECT id, version, at_ms, coalesce(due_at_ms, at_ms), created_for_ms, attempts, lock_consumer_id, producer_group, is_json, body,
    dead_letter::text, history::text, schedule_version
FROM topic_messages
WHERE topic_id = %(topic_id)s AND at_ms > %(now_ms)s AND lock_consumer_id = %(consumer_id)s AND stage < 2
ORDER BY due_at_ms

-- name: held_ends
SELECT lock_consumer_id, id, at_ms FROM topic_messages
WHERE topic_id = %(topic_id)s AND at_ms > %(now_ms)s AND lock_consumer_id = ANY (%(consumers)s) AND stage < 2

-- name: extend
-- The instant was far enough ahead when it was asked for; however long that took, it is ahead now.
UPDATE topic_messages AS m SET at_ms = greatest(x.at_ms, %(now_ms)s + 1), version = m.version + 1
FROM unnest(%(topic_ids)s, %(ids)s, %(versions)s, %(consumers)s, %(ats)s) AS x (topic_id, id, version, consumer_id, at_ms)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.lock_consumer_id IS NOT DISTINCT FROM x.consumer_id
  AND m.version = x.version AND m.at_ms > %(now_ms)s AND m.stage + 0 < 2
RETURNING m.topic_id, m.id, m.version, m.at_ms, m.stage

-- name: release
-- For the instant that is given, or where there is none (0) for when the policy says: the more attempts, the later. On its last
-- attempt a message does not come back: it ends here, and the duty of dead letters finds it. The latest reasons are kept.
UPDATE topic_messages AS m
SET due_at_ms = NULL,
    at_ms = CASE WHEN m.stage = 1 THEN %(now_ms)s
        WHEN x.at_ms > 0 THEN greatest(x.at_ms, %(now_ms)s + 1)
        ELSE %(now_ms)s + greatest(1, least(x.longest_ms, (1 + x.jitter * (2 * random() - 1))
            * least(x.longest_ms, x.delay_ms * power(x.factor, least(greatest(m.attempts - 1, 0), 100))))::bigint) END,
    lock_consumer_id = CASE WHEN m.stage = 1 THEN m.lock_consumer_id END, version = m.version + 1,
    history = CASE WHEN x.reason = '' THEN m.history
        ELSE CASE WHEN jsonb_array_length(m.history) >= %(kept)s THEN m.history - 0 ELSE coalesce(m.history, '[]') END
            || jsonb_build_object('attempt', m.attempts, 'at_ms', %(now_ms)s, 'consumer_id', split_part(x.consumer_id, '/', 1),
                'reason', x.reason) END
FROM unnest(%(topic_ids)s, %(ids)s, %(versions)s, %(consumers)s, %(ats)s, %(delays_ms)s, %(factors)s, %(longest_ms)s,
     %(jitters)s, %(reasons)s)
     AS x (topic_id, id, version, consumer_id, at_ms, delay_ms, factor, longest_ms, jitter, reason)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.lock_consumer_id IS NOT DISTINCT FROM x.consumer_id
  AND m.version = x.version AND m.at_ms > %(now_ms)s AND m.stage + 0 < 2
RETURNING m.topic_id, m.id, m.version, m.at_ms, m.stage

-- name: delete_held
DELETE FROM topic_messages AS m
USING unnest(%(topic_ids)s, %(ids)s, %(versions)s, %(consumers)s) AS x (topic_id, id, version, consumer_id)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.lock_consumer_id IS NOT DISTINCT FROM x.consumer_id
  AND m.version = x.version AND m.at_ms > %(now_ms)s AND m.stage + 0 < 2
RETURNING m.topic_id, m.id

-- name: delete_held_alike
-- The same where all have one topic, consumer and version, as most of what is deleted together has: one scan finds all ids,
-- and those that are neighbours in the index cost next to nothing.
DELETE FROM topic_messages
WHERE id = ANY (%(ids)s) AND topic_id + 0 = %(topic_id)s AND lock_consumer_id IS NOT DISTINCT FROM %(consumer_id)s
  AND version = %(version)s AND at_ms + 0 > %(now_ms)s AND stage + 0 < 2
RETURNING topic_id, id

-- name: mark_held
-- The same where the topic remembers deleted ids, and who deleted them.
UPDATE topic_messages AS m
SET stage = 3, at_ms = x.forget_ms, due_at_ms = x.known_ms, dead_letter = NULL, history = NULL, body = '',
    version = m.version + 1
FROM unnest(%(topic_ids)s, %(ids)s, %(versions)s, %(consumers)s, %(forgets)s, %(knowns)s)
     AS x (topic_id, id, version, consumer_id, forget_ms, known_ms)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.lock_consumer_id IS NOT DISTINCT FROM x.consumer_id
  AND m.version = x.version AND m.at_ms > %(now_ms)s AND m.stage + 0 < 2
RETURNING m.topic_id, m.id

-- name: move
-- By the owner; version 0 is any. A dead message starts again from its first attempt.
UPDATE topic_messages AS m
SET at_ms = x.at_ms, created_for_ms = x.at_ms, due_at_ms = NULL, lock_consumer_id = NULL, version = m.version + 1,
    attempts = CASE WHEN m.stage = 0 THEN m.attempts ELSE 0 END, stage = 0,
    history = CASE WHEN m.stage = 0 THEN m.history END
FROM unnest(%(topic_ids)s, %(ids)s, %(versions)s, %(groups)s, %(ats)s) AS x (topic_id, id, version, producer_group, at_ms)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.producer_group IS NOT DISTINCT FROM x.producer_group
  AND (x.version = 0 OR m.version = x.version)
  AND m.stage + 0 < 3 AND (m.at_ms <= %(now_ms)s OR m.lock_consumer_id IS NULL)
RETURNING m.topic_id, m.id, m.version, m.at_ms

-- name: delete_owned
-- By the owner; version 0 is any. It stays known, so that the same request again gets the same answer.
UPDATE topic_messages AS m
SET stage = 3, at_ms = x.forget_ms, due_at_ms = x.known_ms, lock_consumer_id = NULL, dead_letter = NULL, history = NULL, body = '',
    version = m.version + 1
FROM unnest(%(topic_ids)s, %(ids)s, %(versions)s, %(groups)s, %(forgets)s, %(knowns)s)
     AS x (topic_id, id, version, producer_group, forget_ms, known_ms)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.producer_group IS NOT DISTINCT FROM x.producer_group
  AND (x.version = 0 OR m.version = x.version)
  AND m.stage + 0 < 3 AND (m.at_ms <= %(now_ms)s OR m.lock_consumer_id IS NULL)
RETURNING m.topic_id, m.id

-- name: positions
SELECT m.topic_id, m.id, m.at_ms, m.stage, m.version, m.attempts, m.bucket_id, m.producer_group, m.lock_consumer_id,
    m.created_for_ms
FROM unnest(%(topic_ids)s, %(ids)s) AS x (topic_id, id)
JOIN topic_messages AS m ON m.topic_id + 0 = x.topic_id AND m.id = x.id

-- fragment: stored
SELECT id, at_ms, stage, version, attempts, bucket_id, producer_group, lock_consumer_id, created_for_ms, is_json, body,
    dead_letter::text, history::text, schedule_version
FROM topic_messages

-- name: message
{stored}
WHERE id = %(id)s AND topic_id + 0 = %(topic_id)s

-- name: messages_of_group
-- A group may own next to nothing of a topic or all of it; this statement is planned for the group that is asked for.
SELECT * FROM (
    SELECT * FROM (
        {stored}
        WHERE producer_group = %(producer_group)s AND topic_id = %(topic_id)s AND lock_consumer_id IS NULL
          AND due_at_ms IS NULL AND id > %(after)s AND stage < 3
        ORDER BY id LIMIT %(limit)s
    ) AS free
    UNION ALL
    SELECT * FROM (
        {stored}
        WHERE producer_group = %(producer_group)s AND topic_id = %(topic_id)s AND lock_consumer_id IS NULL AND stage = 0
          AND due_at_ms IS NOT NULL AND at_ms <= %(soon_ms)s AND id > %(after)s
        ORDER BY id LIMIT %(limit)s
    ) AS due_at_once
    UNION ALL
    SELECT * FROM (
        {stored}
        WHERE producer_group || '' = %(producer_group)s AND topic_id = %(topic_id)s AND lock_consumer_id IS NOT NULL
          AND id || '' > %(after)s AND stage < 2
    ) AS leased
) AS found
ORDER BY id LIMIT %(limit)s

-- name: open_slots
-- Messages that are not leased, from the index only.
SELECT (at_ms - %(from_ms)s) / %(step_ms)s AS slot, at_ms <= %(now_ms)s AS past, count(*)
FROM topic_messages
WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL AND at_ms >= %(from_ms)s AND at_ms < %(to_ms)s
GROUP BY 1, 2

-- name: leased_slots
-- Leases, and what has been leased and is available again. A last attempt that is over is dead, not available.
SELECT (at_ms - %(from_ms)s) / %(step_ms)s AS slot, at_ms <= %(now_ms)s AS past, count(*)
FROM topic_messages
WHERE topic_id = %(topic_id)s AND lock_consumer_id IS NOT NULL AND stage < 2
  AND at_ms >= %(from_ms)s AND at_ms < %(to_ms)s AND (at_ms > %(now_ms)s OR stage = 0)
GROUP BY 1, 2

-- name: count_dead
SELECT (SELECT count(*) FROM topic_messages
        WHERE topic_id + 0 = %(topic_id)s AND stage = 2 AND at_ms >= %(from_ms)s AND at_ms < %(to_ms)s)
     + (SELECT count(*) FROM topic_messages
        WHERE topic_id + 0 = %(topic_id)s AND stage = 1 AND at_ms <= %(now_ms)s AND at_ms >= %(from_ms)s AND at_ms < %(to_ms)s)

-- name: outstanding
SELECT topic_id, lock_consumer_id, count(*) FROM topic_messages
WHERE topic_id = ANY (%(topic_ids)s) AND at_ms > %(now_ms)s AND lock_consumer_id = ANY (%(consumers)s) AND stage < 2
GROUP BY 1, 2
