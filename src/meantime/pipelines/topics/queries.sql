-- name: scan
-- All messages of some buckets, whoever owns them; remembered ones that are gone are no messages.
SELECT id, at_ms, stage, version, attempts, bucket_id, producer_group, lock_consumer_id, created_for_ms, is_json, body
FROM topic_messages
WHERE topic_id = %(topic_id)s AND bucket_id BETWEEN %(first)s AND %(last)s AND stage < 3

-- name: topic
SELECT topic_id, bucket_count FROM topics WHERE name = %(name)s AND deleted_at_ms IS NULL

-- name: notify
SELECT pg_notify(%(channel)s, %(payload)s)

-- name: hold_topic
-- A topic that is changed or deleted waits for what is being copied into it; one that has been is not copied into.
SELECT 1 FROM topics WHERE topic_id = %(topic_id)s AND revision = %(revision)s AND deleted_at_ms IS NULL FOR SHARE

-- name: copy
COPY topic_messages ({columns}) FROM STDIN (FORMAT binary)

-- name: taken
-- Which of these ids exist, or were deleted and still count as taken.
SELECT m.id FROM unnest(%(ids)s) AS x (id) JOIN topic_messages AS m ON m.topic_id + 0 = %(topic_id)s AND m.id = x.id
WHERE m.stage < 3 OR m.due_at_ms > %(now_ms)s
