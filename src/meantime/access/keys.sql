-- name: add
INSERT INTO api_keys (id, name, digest, scopes, created_ms)
VALUES (%(id)s, %(name)s, %(digest)s, %(scopes)s, %(now_ms)s)

-- name: ensure
INSERT INTO api_keys (id, name, digest, scopes, created_ms)
VALUES (%(id)s, %(name)s, %(digest)s, %(scopes)s, %(now_ms)s)
ON CONFLICT (id) DO NOTHING

-- name: list
SELECT id, name, scopes, created_ms, revoked_ms FROM api_keys ORDER BY created_ms, id

-- name: revoke
-- Nodes clear their cache of keys when they are notified.
WITH revoked AS (
    UPDATE api_keys SET revoked_ms = %(now_ms)s WHERE id = %(id)s AND revoked_ms IS NULL RETURNING id
)
SELECT id, pg_notify('meantime_keys', id) FROM revoked

-- name: find
SELECT id, name, scopes, NULL::bigint AS expires_ms FROM api_keys WHERE digest = %(digest)s AND revoked_ms IS NULL

-- name: find_session
-- The key that a session of the console belongs to.
SELECT k.id, k.name, k.scopes, s.expires_ms
FROM console_sessions AS s JOIN api_keys AS k ON k.id = s.key_id
WHERE s.digest = %(digest)s AND s.expires_ms > %(now_ms)s AND k.revoked_ms IS NULL

-- name: add_session
INSERT INTO console_sessions (digest, key_id, created_ms, expires_ms)
VALUES (%(digest)s, %(key_id)s, %(now_ms)s, %(expires_ms)s)

-- name: end_session
-- Nodes forget whom the token belongs to when they are notified.
WITH ended AS (DELETE FROM console_sessions WHERE digest = %(digest)s RETURNING digest)
SELECT pg_notify('meantime_keys', 'session:' || encode(digest, 'hex')) FROM ended

-- name: purge_sessions
DELETE FROM console_sessions WHERE expires_ms <= %(now_ms)s

-- name: valid
SELECT id FROM api_keys WHERE id = ANY(%(ids)s) AND revoked_ms IS NULL
