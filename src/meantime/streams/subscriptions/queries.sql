-- name: share_event_types
-- Held while a subscription is made, so that none of its event types can be deleted meanwhile.
SELECT name FROM event_types WHERE name = ANY (%(event_types)s) ORDER BY name FOR SHARE;

-- name: insert_subscription
INSERT INTO subscriptions (id, owning_application, event_types, event_types_key, consumer_group, read_from, initial_cursors,
                           access, created_at_ms, updated_at_ms)
VALUES (%(id)s, %(owning_application)s, %(event_types)s, %(event_types_key)s, %(consumer_group)s, %(read_from)s,
        %(initial_cursors)s, %(access)s, %(now_ms)s, %(now_ms)s)
ON CONFLICT (owning_application, consumer_group, event_types_key) DO NOTHING;

-- name: same_subscription
SELECT * FROM subscriptions
WHERE owning_application = %(owning_application)s AND consumer_group = %(consumer_group)s
  AND event_types_key = %(event_types_key)s;

-- name: subscription
SELECT * FROM subscriptions WHERE id = %(id)s;

-- name: subscriptions
SELECT * FROM subscriptions
WHERE (%(owning_application)s::text IS NULL OR owning_application = %(owning_application)s)
  AND event_types @> %(event_types)s::text[]
ORDER BY created_at_ms DESC, id
LIMIT %(limit)s OFFSET %(offset)s;

-- name: update_access
UPDATE subscriptions SET access = %(access)s, updated_at_ms = %(now_ms)s WHERE id = %(id)s;

-- name: delete_subscription
-- Its streams end wherever they are.
WITH gone AS (DELETE FROM subscriptions WHERE id = %(id)s RETURNING id)
SELECT pg_notify('meantime_subscriptions', id::text) FROM gone;

-- name: cursors
SELECT event_type, partition, ord, committed_offset, stream_id, node_id FROM subscription_cursors
WHERE subscription_id = %(id)s ORDER BY event_type, partition;

-- name: all_cursors
SELECT s.owning_application, s.consumer_group, c.event_type, c.partition, c.ord, c.committed_offset
FROM subscription_cursors c JOIN subscriptions s ON s.id = c.subscription_id;

-- name: unread_subscriptions
SELECT * FROM subscriptions s
WHERE NOT EXISTS (SELECT 1 FROM subscription_cursors c WHERE c.subscription_id = s.id);

-- name: initialise_cursors
-- Whoever comes first decides where a partition begins.
INSERT INTO subscription_cursors (subscription_id, event_type, partition, ord, committed_offset)
SELECT %(id)s, * FROM unnest(%(event_types)s::text[], %(partitions)s::int[], %(ords)s::int[], %(offsets)s::bigint[])
ON CONFLICT DO NOTHING;

-- name: claim_cursor
-- A claim is newer than another when its ZooKeeper node is; `forced` is for claims of a ZooKeeper that started anew.
UPDATE subscription_cursors SET stream_id = %(stream_id)s, node_id = %(node_id)s, claim = %(claim)s
WHERE subscription_id = %(id)s AND event_type = %(event_type)s AND partition = %(partition)s
  AND (claim < %(claim)s OR %(forced)s)
RETURNING ord, committed_offset;

-- name: release_cursor
UPDATE subscription_cursors SET stream_id = NULL, node_id = NULL
WHERE subscription_id = %(id)s AND event_type = %(event_type)s AND partition = %(partition)s
  AND stream_id = %(stream_id)s;

-- name: commit_cursors
-- All or nothing: one partition that is not the stream's own, and no cursor moves. Cursors only move forward. A stream on
-- another node is told. The rows say who held each partition and where it was before.
WITH wanted AS (
    SELECT * FROM unnest(%(event_types)s::text[], %(partitions)s::int[], %(ords)s::int[], %(offsets)s::bigint[])
        AS w (event_type, partition, ord, committed_offset)
), held AS (
    SELECT w.event_type, w.partition, w.ord AS to_ord, w.committed_offset AS to_offset,
           c.ord, c.committed_offset, c.stream_id, c.node_id
    FROM wanted w LEFT JOIN subscription_cursors c
      ON c.subscription_id = %(id)s AND c.event_type = w.event_type AND c.partition = w.partition
), moved AS (
    UPDATE subscription_cursors c SET ord = w.ord, committed_offset = w.committed_offset
    FROM wanted w
    WHERE c.subscription_id = %(id)s AND c.event_type = w.event_type AND c.partition = w.partition
      AND c.stream_id = %(stream_id)s AND (c.ord, c.committed_offset) < (w.ord, w.committed_offset)
      AND NOT EXISTS (SELECT 1 FROM held WHERE stream_id IS DISTINCT FROM %(stream_id)s)
    RETURNING c.event_type, c.partition, c.ord, c.committed_offset, c.node_id
), told AS (
    SELECT pg_notify('meantime_commits', concat_ws(' ', %(stream_id)s::text, event_type, partition, ord, committed_offset))
    FROM moved WHERE node_id IS DISTINCT FROM %(node_id)s
)
SELECT h.event_type, h.partition, h.ord, h.committed_offset, h.stream_id, m.partition IS NOT NULL AS moved,
       (SELECT count(*) FROM told) AS told
FROM held h LEFT JOIN moved m ON m.event_type = h.event_type AND m.partition = h.partition;

-- name: reset_cursors
-- Streams have gone by now; whatever they did not commit is void.
UPDATE subscription_cursors c SET ord = w.ord, committed_offset = w.committed_offset, stream_id = NULL, node_id = NULL
FROM unnest(%(event_types)s::text[], %(partitions)s::int[], %(ords)s::int[], %(offsets)s::bigint[])
    AS w (event_type, partition, ord, committed_offset)
WHERE c.subscription_id = %(id)s AND c.event_type = w.event_type AND c.partition = w.partition;
