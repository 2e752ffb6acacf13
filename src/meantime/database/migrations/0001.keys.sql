-- API keys. Only a digest of the secret is stored; a revoked key keeps its row so that its name is not used again.
CREATE TABLE api_keys (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    digest      BYTEA NOT NULL UNIQUE,
    scopes      TEXT[] NOT NULL,
    created_ms  BIGINT NOT NULL,
    revoked_ms  BIGINT
);
