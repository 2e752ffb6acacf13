-- What duties do, in batches and without blocking others: rows that another transaction has locked are left for the next time.

-- fragment: over
-- Last attempts whose lease is over.
SELECT id, topic_id, attempts, lock_consumer_id, at_ms FROM topic_messages
WHERE stage = 1 AND at_ms <= %(now_ms)s
ORDER BY at_ms LIMIT %(limit)s FOR UPDATE {others}

-- name: dying
{over others=SKIP LOCKED}

-- name: dying_patiently
-- The same, after whoever is moving some of them at this moment.
{over others=}

-- name: drop_forgotten
-- Removes a deleted id from the topic that a dead letter of the same id goes to.
DELETE FROM topic_messages AS m USING unnest(%(topic_ids)s, %(ids)s) AS x (topic_id, id)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.stage + 0 = 3

-- name: move_dead_letters
-- Same id, body and owner in another topic, with how it died; the row itself moves, so its body does not.
UPDATE topic_messages AS m
SET topic_id = x.to_topic, bucket_id = x.bucket_id, at_ms = %(now_ms)s, due_at_ms = NULL, version = 1, attempts = 0, stage = 0,
    lock_consumer_id = NULL,
    dead_letter = jsonb_build_object('topic', x.from_name, 'attempts', m.attempts,
        'last_consumer_id', split_part(m.lock_consumer_id, '/', 1), 'died_at_ms', m.at_ms)
        || CASE WHEN m.history IS NULL THEN '{}'
            ELSE jsonb_build_object('reason', m.history -> -1 -> 'reason', 'history', m.history) END,
    history = NULL
FROM unnest(%(topic_ids)s, %(ids)s, %(to_topics)s, %(buckets)s, %(from_names)s)
     AS x (topic_id, id, to_topic, bucket_id, from_name)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.stage + 0 = 1
  AND NOT EXISTS (SELECT 1 FROM topic_messages AS o WHERE o.id = x.id AND o.topic_id + 0 = x.to_topic)
RETURNING x.topic_id, m.id, m.producer_group, m.bucket_id

-- name: remember
-- The id of a dead letter counts as used in the topic where it died, as after a delete.
INSERT INTO topic_messages
    (topic_id, id, at_ms, due_at_ms, created_for_ms, bucket_id, version, attempts, stage, is_json, producer_group, body)
SELECT x.topic_id, x.id, x.forget_ms, x.known_ms, 0, 0, 1, 0, 3, false, x.producer_group, ''
FROM unnest(%(topic_ids)s, %(ids)s, %(groups)s, %(forgets)s, %(knowns)s) AS x (topic_id, id, producer_group, forget_ms, known_ms)
ON CONFLICT (id, topic_id) DO NOTHING

-- name: settle
-- What cannot be moved stays as dead; what has attempts left after all, because the limit was raised, is open again.
UPDATE topic_messages AS m SET stage = x.stage
FROM unnest(%(topic_ids)s, %(ids)s, %(stages)s) AS x (topic_id, id, stage)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id AND m.stage + 0 = 1 AND m.at_ms <= %(now_ms)s

-- name: dead_letters
-- Those that came from elsewhere and are not leased, oldest first.
SELECT id, dead_letter ->> 'topic' FROM topic_messages
WHERE topic_id = %(topic_id)s AND stage = 0 AND dead_letter IS NOT NULL AND (at_ms <= %(now_ms)s OR lock_consumer_id IS NULL)
ORDER BY at_ms LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: dead_here
SELECT id FROM topic_messages
WHERE topic_id + 0 = %(topic_id)s AND stage = 2
ORDER BY at_ms LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: revive
-- Back to where it may be leased, from its first attempt on, without its history.
UPDATE topic_messages AS m
SET topic_id = x.to_topic, bucket_id = x.bucket_id, at_ms = %(now_ms)s, due_at_ms = NULL, attempts = 0, stage = 0,
    version = CASE WHEN m.topic_id = x.to_topic THEN m.version + 1 ELSE 1 END, lock_consumer_id = NULL, dead_letter = NULL,
    history = NULL
FROM unnest(%(topic_ids)s, %(ids)s, %(to_topics)s, %(buckets)s) AS x (topic_id, id, to_topic, bucket_id)
WHERE m.topic_id + 0 = x.topic_id AND m.id = x.id
  AND (m.topic_id = x.to_topic
       OR NOT EXISTS (SELECT 1 FROM topic_messages AS o WHERE o.id = x.id AND o.topic_id + 0 = x.to_topic))
RETURNING m.id

-- name: forget
WITH found AS MATERIALIZED (
    SELECT id, topic_id FROM topic_messages WHERE stage = 3 AND at_ms <= %(now_ms)s
    ORDER BY at_ms LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM topic_messages AS m USING found WHERE m.id = found.id AND m.topic_id + 0 = found.topic_id

-- name: clear_open
WITH found AS MATERIALIZED (
    SELECT id, topic_id FROM topic_messages WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL
    ORDER BY at_ms LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM topic_messages AS m USING found WHERE m.id = found.id AND m.topic_id + 0 = found.topic_id

-- name: clear_leased
WITH found AS MATERIALIZED (
    SELECT id, topic_id FROM topic_messages WHERE topic_id = %(topic_id)s AND stage < 2 AND lock_consumer_id IS NOT NULL
    ORDER BY at_ms LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM topic_messages AS m USING found WHERE m.id = found.id AND m.topic_id + 0 = found.topic_id

-- name: clear_rest
WITH found AS MATERIALIZED (
    SELECT id, topic_id FROM topic_messages WHERE topic_id + 0 = %(topic_id)s AND stage > 0
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM topic_messages AS m USING found WHERE m.id = found.id AND m.topic_id + 0 = found.topic_id

-- name: due_per_second
-- For forecasts: how much becomes due in each second from now on.
SELECT (at_ms - %(now_ms)s) / 1000 AS slot, count(*) FROM topic_messages
WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL AND at_ms > %(now_ms)s AND at_ms < %(until_ms)s
GROUP BY 1
