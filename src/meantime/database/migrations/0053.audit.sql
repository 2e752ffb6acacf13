-- What operators have done: who, what, with what, how many. Rows are only ever added, and removed when they are old.
CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    count bigint,
    detail jsonb NOT NULL
);
CREATE INDEX audit_log_by_time ON audit_log (at_ms);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);
