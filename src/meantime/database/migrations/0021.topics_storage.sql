-- How PostgreSQL keeps the messages; other databases that speak its dialect can do without this file.

-- Bodies beyond a kilobyte live apart, so that a move does not rewrite them, and nobody spends time on compressing them.
-- Pages are filled: every lease makes a new version of the row, but room kept for it costs creating more than it saves.
ALTER TABLE topic_messages SET (
    toast_tuple_target = 1024,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE topic_messages ALTER COLUMN body SET STORAGE EXTERNAL;
