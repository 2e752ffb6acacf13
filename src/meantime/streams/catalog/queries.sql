-- fragment: row_versions
-- Which transactions wrote the rows of an event type: another text as soon as one of them was changed, whoever did it.
e.xmin::text || ' ' || coalesce(
    (SELECT string_agg(v.xmin::text, ' ' ORDER BY v.ord) FROM timelines v WHERE v.event_type = e.name), '') AS row_versions

-- name: event_type_with_timelines
-- One statement, so that a declaration is never paired with the timelines of its namesake.
SELECT e.name, e.document, e.category, e.partitions AS declared_partitions, e.retention_ms, e.cleanup_policy, e.adopt_topic,
       e.adopt_storage_id, e.version, e.created_at_ms AS declared_at_ms, e.updated_at_ms,
       t.id, t.event_type, t.ord, t.storage_id, t.topic, t.partitions, t.created_at_ms, t.switched_at_ms, t.closed_at_ms,
       t.latest_offsets, t.cleaned_up_at_ms, t.deleted,
       {row_versions}
FROM event_types e LEFT JOIN timelines t ON t.event_type = e.name
WHERE e.name = %(name)s
ORDER BY t.ord;

-- name: row_versions_of
-- Of many at once, without reading what they are.
SELECT e.name,
       {row_versions}
FROM event_types e WHERE e.name = ANY(%(names)s::text[]);

-- name: existing_event_types
SELECT name FROM event_types WHERE name = ANY(%(names)s::text[]);

-- name: event_type_documents
SELECT name, document, adopt_topic, adopt_storage_id FROM event_types ORDER BY name;

-- name: adopted_topics
SELECT DISTINCT e.adopt_topic FROM event_types e LEFT JOIN storages s ON s.id = e.adopt_storage_id
WHERE e.adopt_topic IS NOT NULL
  AND (e.adopt_storage_id = %(storage_id)s
       OR s.bootstrap_servers = (SELECT bootstrap_servers FROM storages WHERE id = %(storage_id)s));

-- name: insert_event_type
INSERT INTO event_types (name, document, category, partitions, retention_ms, cleanup_policy, adopt_topic, adopt_storage_id,
                         version, created_at_ms, updated_at_ms)
VALUES (%(name)s, %(document)s, %(category)s, %(partitions)s, %(retention_ms)s, %(cleanup_policy)s, %(adopt_topic)s,
        %(adopt_storage_id)s, 1, %(now_ms)s, %(now_ms)s)
ON CONFLICT (name) DO NOTHING;

-- name: update_event_type
UPDATE event_types
SET document = %(document)s, retention_ms = %(retention_ms)s, version = version + 1, updated_at_ms = %(now_ms)s
WHERE name = %(name)s AND version = %(version)s;

-- name: move_cleanup
-- Changing the retention moves the planned dates of what is closed and not yet gone.
UPDATE timelines SET cleaned_up_at_ms = closed_at_ms + %(retention_ms)s
WHERE event_type = %(name)s AND closed_at_ms IS NOT NULL AND NOT deleted;

-- name: lock_event_type
-- Whoever starts, heals or deletes something of an event type holds its row.
SELECT name FROM event_types WHERE name = %(name)s FOR UPDATE;

-- name: share_event_type
-- For many at once who only need it to stand still.
SELECT name FROM event_types WHERE name = %(name)s FOR SHARE;

-- name: delete_event_type
DELETE FROM event_types WHERE name = %(name)s;

-- name: needs
-- What keeps an event type from being deleted.
SELECT (SELECT count(*) FROM subscriptions WHERE %(name)s = ANY (event_types)) AS subscriptions,
       (SELECT array_agg(id::text) FROM (SELECT id FROM subscriptions WHERE %(name)s = ANY (event_types) ORDER BY id LIMIT 10)
        AS first_ones) AS named,
       (SELECT count(*) FROM switches WHERE event_type = %(name)s
        AND state IN ('preparing', 'locked', 'sealed', 'committed')) AS switches;

-- name: insert_timeline
INSERT INTO timelines (id, event_type, ord, storage_id, topic, partitions, created_at_ms, switched_at_ms)
VALUES (%(id)s, %(event_type)s, %(ord)s, %(storage_id)s, %(topic)s, %(partitions)s, %(created_at_ms)s, %(switched_at_ms)s);

-- name: close_timeline
-- Only the active timeline can be closed, and only once.
UPDATE timelines
SET closed_at_ms = %(now_ms)s, latest_offsets = %(latest_offsets)s, sealed = %(sealed)s,
    cleaned_up_at_ms = %(now_ms)s + %(retention_ms)s
WHERE event_type = %(event_type)s AND ord = %(ord)s AND closed_at_ms IS NULL;

-- name: expired_timelines
-- SKIP LOCKED lets one node at a time clean a timeline up without waiting for the others. Where archives have put their marks
-- on the event type, what one of them does not have yet stays.
UPDATE timelines SET deleted = true
WHERE id IN (
    SELECT t.id FROM timelines t JOIN event_types e ON e.name = t.event_type
    WHERE t.cleaned_up_at_ms <= %(now_ms)s AND NOT t.deleted
      AND NOT EXISTS (
          SELECT 1 FROM jsonb_each_text(
              CASE WHEN jsonb_typeof(e.document -> 'annotations') = 'object' THEN e.document -> 'annotations'
                   ELSE '{}'::jsonb END
          ) AS mark (name, reached)
          WHERE left(mark.name, length(%(mark)s)) = %(mark)s
            AND CASE WHEN mark.reached ~ '^[0-9]{1,9}$' THEN mark.reached::int < t.ord ELSE true END
      )
    ORDER BY t.cleaned_up_at_ms LIMIT 100 FOR UPDATE OF t SKIP LOCKED
)
RETURNING event_type, storage_id, topic;

-- name: held_timelines
-- Closed ones of event types with the mark of an archive.
SELECT t.storage_id, t.topic FROM timelines t JOIN event_types e ON e.name = t.event_type
WHERE t.cleaned_up_at_ms IS NOT NULL AND NOT t.deleted AND EXISTS (
    SELECT 1 FROM jsonb_object_keys(
        CASE WHEN jsonb_typeof(e.document -> 'annotations') = 'object' THEN e.document -> 'annotations'
             ELSE '{}'::jsonb END
    ) AS mark (name)
    WHERE left(mark.name, length(%(mark)s)) = %(mark)s
);

-- name: unsealed_timelines
SELECT storage_id, topic FROM timelines WHERE closed_at_ms IS NOT NULL AND NOT sealed AND NOT deleted;

-- name: mark_sealed
UPDATE timelines SET sealed = true WHERE storage_id = %(storage_id)s AND topic = %(topic)s;

-- name: doom_topic
INSERT INTO doomed_topics (storage_id, topic, not_before_ms) VALUES (%(storage_id)s, %(topic)s, %(not_before_ms)s)
ON CONFLICT (storage_id, topic) DO UPDATE SET not_before_ms = excluded.not_before_ms;

-- name: spare_topic
DELETE FROM doomed_topics WHERE storage_id = %(storage_id)s AND topic = %(topic)s;

-- name: topics_of
SELECT storage_id, topic FROM timelines WHERE event_type = %(name)s AND NOT deleted;

-- name: doomed_topics
SELECT storage_id, topic FROM doomed_topics WHERE not_before_ms <= %(now_ms)s ORDER BY not_before_ms LIMIT 100;

-- name: forget_acknowledged
DELETE FROM acknowledged_offsets WHERE storage_id = %(storage_id)s AND topic = %(topic)s;

-- name: raise_acknowledged
INSERT INTO acknowledged_offsets (storage_id, topic, partition, acked_offset)
SELECT * FROM unnest(%(storage_ids)s::text[], %(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[])
ON CONFLICT (storage_id, topic, partition) DO UPDATE SET acked_offset = excluded.acked_offset
WHERE acknowledged_offsets.acked_offset < excluded.acked_offset;

-- name: acknowledged
SELECT partition, acked_offset FROM acknowledged_offsets WHERE storage_id = %(storage_id)s AND topic = %(topic)s;

-- name: storages
SELECT id, storage_type, bootstrap_servers, settings, is_default FROM storages ORDER BY created_at_ms, id;

-- name: insert_storage
INSERT INTO storages (id, storage_type, bootstrap_servers, settings, is_default, created_at_ms)
VALUES (%(id)s, %(storage_type)s, %(bootstrap_servers)s, %(settings)s, %(is_default)s, %(now_ms)s)
ON CONFLICT DO NOTHING;

-- name: lock_storages
SELECT id, is_default FROM storages ORDER BY id FOR UPDATE;

-- name: share_storage
-- Held while something is put into a storage, so that it cannot be removed meanwhile.
SELECT id FROM storages WHERE id = %(id)s FOR SHARE;

-- name: storage_in_use
SELECT EXISTS (SELECT 1 FROM timelines WHERE storage_id = %(id)s AND NOT deleted)
    OR EXISTS (SELECT 1 FROM event_types e WHERE adopt_storage_id = %(id)s
               AND NOT EXISTS (SELECT 1 FROM timelines t WHERE t.event_type = e.name))
    OR EXISTS (SELECT 1 FROM switches WHERE storage_id = %(id)s
               AND state IN ('preparing', 'locked', 'sealed', 'committed')) AS used;

-- name: delete_storage
DELETE FROM storages WHERE id = %(id)s;

-- name: forget_doomed_in_storage
DELETE FROM doomed_topics WHERE storage_id = %(id)s;

-- name: set_default_storage
UPDATE storages SET is_default = %(is_default)s WHERE id = %(id)s;

-- name: move_storage
-- The address of a storage that the node was configured with may change between starts, and so may settings that are given.
UPDATE storages SET bootstrap_servers = %(bootstrap_servers)s,
    settings = CASE WHEN %(settings)s::jsonb = '{}' THEN settings ELSE %(settings)s::jsonb END
WHERE id = %(id)s
  AND (bootstrap_servers <> %(bootstrap_servers)s OR %(settings)s::jsonb NOT IN ('{}', settings));

-- name: notify_event_type
SELECT pg_notify('meantime_event_types', %(name)s);

-- name: notify_storages
SELECT pg_notify('meantime_storages', '');
