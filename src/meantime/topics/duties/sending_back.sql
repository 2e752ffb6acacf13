-- Messages that go to another topic under another id and with another body, a page at a time.

-- name: page
-- Those that nobody holds and that did not die in another topic, in time order after a place.
WITH found AS MATERIALIZED (
    (SELECT id, at_ms FROM topic_messages
     WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL AND dead_letter IS NULL
       AND at_ms >= %(after_ms)s AND (at_ms, id) > (%(after_ms)s, %(after_id)s)
     ORDER BY at_ms, id LIMIT %(limit)s)
    UNION ALL
    (SELECT id, at_ms FROM topic_messages
     WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NOT NULL AND dead_letter IS NULL
       AND at_ms >= %(after_ms)s AND at_ms <= %(now_ms)s AND (at_ms, id) > (%(after_ms)s, %(after_id)s)
     ORDER BY at_ms, id LIMIT %(limit)s)
)
SELECT m.id, m.at_ms, m.is_json, m.body FROM topic_messages AS m JOIN found ON m.id = found.id
WHERE m.topic_id + 0 = %(topic_id)s AND m.stage + 0 = 0 AND (m.lock_consumer_id IS NULL OR m.at_ms <= %(now_ms)s)
ORDER BY m.at_ms, m.id LIMIT %(limit)s FOR UPDATE OF m SKIP LOCKED

-- name: drop_forgotten
-- Removes deleted ids from the topic that messages of the same ids go to.
DELETE FROM topic_messages AS m USING unnest(%(new_ids)s) AS x (id)
WHERE m.topic_id + 0 = %(to_topic)s AND m.id = x.id AND m.stage + 0 = 3

-- name: send_back
UPDATE topic_messages AS m
SET topic_id = %(to_topic)s, id = x.new_id, bucket_id = x.bucket_id, body = x.body, at_ms = %(now_ms)s, due_at_ms = NULL,
    created_for_ms = %(now_ms)s, version = 1, attempts = 0, stage = 0, lock_consumer_id = NULL,
    history = NULL
FROM unnest(%(ids)s, %(new_ids)s, %(buckets)s, %(bodies)s) AS x (id, new_id, bucket_id, body)
WHERE m.topic_id + 0 = %(topic_id)s AND m.id = x.id
  AND NOT EXISTS (SELECT 1 FROM topic_messages AS o WHERE o.id = x.new_id AND o.topic_id + 0 = %(to_topic)s)
RETURNING m.id

-- name: leased
SELECT count(*) FROM topic_messages
WHERE topic_id = %(topic_id)s AND stage < 2 AND lock_consumer_id IS NOT NULL AND at_ms > %(now_ms)s
  AND (dead_letter IS NOT NULL OR %(all_messages)s)
