-- Sessions of the console: whoever has logged in with a key gets a token, of which only a digest is stored. A session ends
-- with its key, at its end, or when its owner logs out.
CREATE TABLE console_sessions (
    digest bytea PRIMARY KEY,
    key_id text NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL
);
CREATE INDEX console_sessions_expired ON console_sessions (expires_ms);
