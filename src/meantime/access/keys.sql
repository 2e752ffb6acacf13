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
SELECT id, name, scopes FROM api_keys WHERE digest = %(digest)s AND revoked_ms IS NULL

-- name: valid
SELECT id FROM api_keys WHERE id = ANY(%(ids)s) AND revoked_ms IS NULL
