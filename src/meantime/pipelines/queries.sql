-- name: scan
-- All messages of some buckets, whoever owns them; remembered ones that are gone are no messages.
SELECT id, at_ms, stage, version, attempts, bucket_id, producer_group, lock_consumer_id, created_for_ms, is_json, body
FROM topic_messages
WHERE topic_id = %(topic_id)s AND bucket_id BETWEEN %(first)s AND %(last)s AND stage < 3

-- name: topic
SELECT topic_id, bucket_count FROM topics WHERE name = %(name)s AND deleted_at_ms IS NULL

-- name: notify
SELECT pg_notify(%(channel)s, %(payload)s)
