-- name: insert_switch
-- The unique index on running switches lets one in; the loser is told so.
INSERT INTO switches (id, event_type, state, epoch, owner, owner_session, force, old_storage_id, old_topic, old_settings,
                      storage_id, new_topic, timeline_id, idempotency_key, started_at_ms)
VALUES (%(id)s, %(event_type)s, %(state)s, %(epoch)s, %(owner)s, %(owner_session)s, %(force)s, %(old_storage_id)s,
        %(old_topic)s, %(old_settings)s, %(storage_id)s, %(new_topic)s, %(timeline_id)s, %(idempotency_key)s,
        %(started_at_ms)s)
ON CONFLICT DO NOTHING;

-- name: running_switch
SELECT * FROM switches
WHERE event_type = %(event_type)s AND state IN ('preparing', 'locked', 'sealed', 'committed');

-- name: running_switches
SELECT * FROM switches WHERE state IN ('preparing', 'locked', 'sealed', 'committed') ORDER BY started_at_ms;

-- name: switch_by_key
-- A failed attempt does not use its key up.
SELECT * FROM switches
WHERE event_type = %(event_type)s AND idempotency_key = %(idempotency_key)s AND started_at_ms >= %(since_ms)s
  AND state <> 'failed'
ORDER BY started_at_ms DESC LIMIT 1;

-- name: switches_of
SELECT * FROM switches WHERE event_type = %(event_type)s ORDER BY started_at_ms, id;

-- name: switch_by_id
SELECT * FROM switches WHERE id = %(id)s;

-- name: advance_switch
-- A step of the owner: refused when somebody has taken over.
UPDATE switches
SET state = %(state)s, old_settings = %(old_settings)s, stall_ms = %(stall_ms)s, error = %(error)s,
    finished_at_ms = %(finished_at_ms)s, overtaken = %(overtaken)s, phases = %(phases)s, acknowledged = %(acknowledged)s
WHERE id = %(id)s AND epoch = %(epoch)s AND state NOT IN ('done', 'failed')
RETURNING *;

-- name: take_over_switch
-- Waits for a step that is under way, then fences its owner; the row that comes back says how far it got.
UPDATE switches SET epoch = epoch + 1, owner = %(owner)s, owner_session = %(owner_session)s
WHERE id = %(id)s AND epoch = %(epoch)s AND state NOT IN ('done', 'failed')
RETURNING *;

-- name: commit_switch
UPDATE switches SET state = 'committed', overtaken = %(overtaken)s, phases = %(phases)s, acknowledged = %(acknowledged)s
WHERE id = %(id)s AND epoch = %(epoch)s AND state IN ('locked', 'sealed')
RETURNING *;

-- name: last_failed_settings
SELECT old_settings FROM switches
WHERE old_storage_id = %(storage_id)s AND old_topic = %(topic)s AND state = 'failed'
ORDER BY started_at_ms DESC LIMIT 1;

-- name: active_topic
SELECT storage_id, topic FROM timelines WHERE event_type = %(event_type)s ORDER BY ord DESC LIMIT 1;

-- name: ends_of_topic
SELECT latest_offsets FROM timelines WHERE event_type = %(event_type)s AND topic = %(topic)s
  AND latest_offsets IS NOT NULL;

-- name: retention_of
SELECT retention_ms FROM event_types WHERE name = %(name)s;
