-- How much stands in each topic, at a cost that does not grow with it: nothing is counted beyond a limit. Statements are planned
-- like those of messages.sql.

-- name: bounded_depths
-- Every topic: what is not leased (waiting, due), what is (held, available again), and the instant of the oldest that is due.
-- Each is a probe of an index that goes on to the limit.
SELECT t.topic_id, t.name,
    (SELECT count(*) FROM (
        SELECT 1 FROM topic_messages AS m
        WHERE m.topic_id = t.topic_id AND m.stage = 0 AND m.lock_consumer_id IS NULL AND m.at_ms > %(now_ms)s
        LIMIT %(most)s
    ) AS waiting),
    (SELECT count(*) FROM (
        SELECT 1 FROM topic_messages AS m
        WHERE m.topic_id = t.topic_id AND m.stage = 0 AND m.lock_consumer_id IS NULL AND m.at_ms <= %(now_ms)s
        LIMIT %(most)s
    ) AS due),
    (SELECT count(*) FROM (
        SELECT 1 FROM topic_messages AS m
        WHERE m.topic_id = t.topic_id AND m.stage < 2 AND m.lock_consumer_id IS NOT NULL AND m.at_ms > %(now_ms)s
        LIMIT %(most)s
    ) AS held),
    (SELECT count(*) FROM (
        SELECT 1 FROM topic_messages AS m
        WHERE m.topic_id = t.topic_id AND m.stage = 0 AND m.lock_consumer_id IS NOT NULL AND m.at_ms <= %(now_ms)s
        LIMIT %(most)s
    ) AS expired),
    least(
        (SELECT m.at_ms FROM topic_messages AS m
         WHERE m.topic_id = t.topic_id AND m.stage = 0 AND m.lock_consumer_id IS NULL AND m.at_ms <= %(now_ms)s
         ORDER BY m.at_ms LIMIT 1),
        (SELECT m.at_ms FROM topic_messages AS m
         WHERE m.topic_id = t.topic_id AND m.stage = 0 AND m.lock_consumer_id IS NOT NULL AND m.at_ms <= %(now_ms)s
         ORDER BY m.at_ms LIMIT 1)
    )
FROM topics AS t WHERE t.deleted_at_ms IS NULL ORDER BY t.topic_id

-- name: bounded_dead
-- Of all topics together, since their index is by stage.
SELECT topic_id, count(*) FROM (
    (SELECT topic_id FROM topic_messages WHERE stage = 2 LIMIT %(most)s)
    UNION ALL
    (SELECT topic_id FROM topic_messages WHERE stage = 1 AND at_ms <= %(now_ms)s LIMIT %(most)s)
) AS dead
GROUP BY topic_id

-- name: pages
SELECT pg_relation_size('topic_messages') / current_setting('block_size')::bigint

-- name: sampled_depths
-- The same from a part of the pages, always the same ones, for topics that reach the limit.
SELECT topic_id, stage, lock_consumer_id IS NOT NULL, at_ms <= %(now_ms)s, count(*)
FROM topic_messages TABLESAMPLE SYSTEM (%(percent)s::float4) REPEATABLE (1)
WHERE stage < 3
GROUP BY 1, 2, 3, 4
