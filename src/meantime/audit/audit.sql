-- name: add
INSERT INTO audit_log (at_ms, actor, action, target, count, detail)
VALUES (%(at_ms)s, %(actor)s, %(action)s, %(target)s, %(count)s, %(detail)s)

-- name: page
-- Newest first, those before an entry.
SELECT id, at_ms, actor, action, target, count, detail FROM audit_log
WHERE id < %(before)s AND at_ms >= %(from_ms)s AND at_ms < %(to_ms)s AND (%(actor)s::text IS NULL OR actor = %(actor)s)
ORDER BY id DESC LIMIT %(limit)s

-- name: purge
DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE at_ms < %(before_ms)s ORDER BY at_ms LIMIT %(limit)s)
