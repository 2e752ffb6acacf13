-- The topics themselves, and who takes messages from them.

-- name: all_topics
SELECT topic_id, name, revision, bucket_count, max_future_ms, max_lease_ms, max_body_bytes, max_attempts, dead_letter_topic,
    dedupe_ms, retry
FROM topics WHERE deleted_at_ms IS NULL ORDER BY name

-- name: topic
SELECT topic_id, name, revision, bucket_count, max_future_ms, max_lease_ms, max_body_bytes, max_attempts, dead_letter_topic,
    dedupe_ms, retry, deleted_at_ms
FROM topics WHERE name = %(name)s

-- name: add_topic
INSERT INTO topics (name, revision, bucket_count, max_future_ms, max_lease_ms, max_body_bytes, max_attempts, dead_letter_topic,
    dedupe_ms, retry, created_at_ms)
VALUES (%(name)s, 1, %(bucket_count)s, %(max_future_ms)s, %(max_lease_ms)s, %(max_body_bytes)s, %(max_attempts)s,
    %(dead_letter_topic)s, %(dedupe_ms)s, %(retry)s, %(now_ms)s)
ON CONFLICT (name) DO NOTHING
RETURNING topic_id

-- name: change_topic
UPDATE topics
SET revision = revision + 1, max_future_ms = %(max_future_ms)s, max_lease_ms = %(max_lease_ms)s,
    max_body_bytes = %(max_body_bytes)s, max_attempts = %(max_attempts)s, dead_letter_topic = %(dead_letter_topic)s,
    dedupe_ms = %(dedupe_ms)s, retry = %(retry)s
WHERE topic_id = %(topic_id)s AND revision = %(revision)s AND deleted_at_ms IS NULL
RETURNING revision

-- name: condemn_topic
UPDATE topics SET deleted_at_ms = %(now_ms)s, revision = revision + 1
WHERE name = %(name)s AND deleted_at_ms IS NULL
RETURNING topic_id

-- name: condemned_topics
SELECT topic_id, deleted_at_ms FROM topics WHERE deleted_at_ms IS NOT NULL

-- name: drop_topic
DELETE FROM topics WHERE topic_id = %(topic_id)s AND deleted_at_ms <= %(before_ms)s

-- name: claim_consumers
-- A consumer has one stream in the whole cluster, whichever key it comes with; one that has been silent for too long is taken
-- for gone, and so is one of an earlier session of this node.
INSERT INTO topic_consumers AS c (topic_id, consumer_id, mode, node_id, session_id, buffer, seen_at_ms)
SELECT x.topic_id, x.consumer_id, 'push', %(node_id)s, %(session_id)s, x.buffer, %(now_ms)s
FROM unnest(%(topic_ids)s, %(consumers)s, %(buffers)s) AS x (topic_id, consumer_id, buffer)
WHERE NOT EXISTS (
    SELECT 1 FROM topic_consumers AS o
    WHERE o.topic_id = x.topic_id AND o.mode = 'push' AND o.seen_at_ms >= %(silent_ms)s AND o.consumer_id <> x.consumer_id
      AND split_part(o.consumer_id, '/', 1) = split_part(x.consumer_id, '/', 1)
      AND (o.node_id <> %(node_id)s OR o.session_id = %(session_id)s)
)
ON CONFLICT (topic_id, consumer_id, mode) DO UPDATE
SET node_id = excluded.node_id, session_id = excluded.session_id, buffer = excluded.buffer, seen_at_ms = excluded.seen_at_ms
WHERE c.seen_at_ms < %(silent_ms)s OR (c.node_id = %(node_id)s AND c.session_id <> %(session_id)s)
RETURNING c.topic_id, c.consumer_id

-- name: note_consumers
-- Pulling needs no claim: the latest pull says where the consumer is.
INSERT INTO topic_consumers AS c (topic_id, consumer_id, mode, node_id, session_id, buffer, seen_at_ms)
SELECT x.topic_id, x.consumer_id, 'pull', %(node_id)s, %(session_id)s, NULL, %(now_ms)s
FROM unnest(%(topic_ids)s, %(consumers)s) AS x (topic_id, consumer_id)
ON CONFLICT (topic_id, consumer_id, mode) DO UPDATE
SET node_id = excluded.node_id, session_id = excluded.session_id, seen_at_ms = excluded.seen_at_ms

-- name: beat
-- Heartbeat of all streams of this process; what it does not return has been taken over by another node.
UPDATE topic_consumers SET seen_at_ms = %(now_ms)s
WHERE session_id = %(session_id)s AND mode = 'push'
RETURNING topic_id, consumer_id

-- name: release_consumers
DELETE FROM topic_consumers AS c
USING unnest(%(topic_ids)s, %(consumers)s) AS x (topic_id, consumer_id)
WHERE c.topic_id = x.topic_id AND c.consumer_id = x.consumer_id AND c.mode = 'push' AND c.session_id = %(session_id)s

-- name: forget_node
-- A node that starts has no streams yet: what has its name is of an earlier session.
DELETE FROM topic_consumers WHERE node_id = %(node_id)s AND session_id <> %(session_id)s

-- name: forget_session
DELETE FROM topic_consumers WHERE session_id = %(session_id)s

-- name: forget_silent
DELETE FROM topic_consumers WHERE seen_at_ms < %(silent_ms)s

-- name: consumers
SELECT topic_id, consumer_id, node_id, mode, buffer FROM topic_consumers WHERE seen_at_ms >= %(silent_ms)s
ORDER BY topic_id, consumer_id, mode
