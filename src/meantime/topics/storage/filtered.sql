-- Messages of a topic by what operators look for: status, instant, the beginning of the id, the group. A status is a range of
-- instants in each of the three places where messages stand (free, leased, dead), which the caller works out; an empty one
-- finds nothing. Statements are planned like those of messages.sql, and none counts or reads more than it shows.

-- fragment: shown
SELECT id, at_ms, stage, version, attempts, bucket_id, producer_group, lock_consumer_id, created_for_ms, is_json,
    CASE WHEN %(with_body)s THEN body ELSE '' END, dead_letter::text, history::text
FROM topic_messages

-- fragment: following
-- Those after a place in the order of instants, a page of them.
AND at_ms >= %(after_ms)s AND (at_ms > %(after_ms)s OR (bucket_id, id) > (%(after_bucket)s, %(after)s))
AND (%(any_group)s OR producer_group || '' = %(producer_group)s)
ORDER BY at_ms, bucket_id, id LIMIT %(limit)s

-- name: by_instant
-- No index has the ids of a topic; those in the order of instants are there, with the bucket as the next.
SELECT * FROM (
    SELECT * FROM (
        {shown}
        WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL
          AND at_ms >= %(free_from)s AND at_ms < %(free_to)s
        {following}
    ) AS free
    UNION ALL
    SELECT * FROM (
        {shown}
        WHERE topic_id = %(topic_id)s AND stage < 2 AND lock_consumer_id IS NOT NULL
          AND at_ms >= %(leased_from)s AND at_ms < %(leased_to)s AND stage + 0 = ANY (%(leased_stages)s)
        {following}
    ) AS leased
    UNION ALL
    SELECT * FROM (
        {shown}
        WHERE topic_id + 0 = %(topic_id)s AND stage = 2 AND at_ms >= %(dead_from)s AND at_ms < %(dead_to)s
        {following}
    ) AS dead
) AS found
ORDER BY at_ms, bucket_id, id LIMIT %(limit)s

-- fragment: standing
-- The same conditions on a row that was found by its id.
topic_id + 0 = %(topic_id)s AND stage + 0 < 3 AND (%(any_group)s OR producer_group || '' = %(producer_group)s) AND (
    (stage + 0 = 0 AND lock_consumer_id IS NOT DISTINCT FROM NULL AND at_ms + 0 >= %(free_from)s AND at_ms + 0 < %(free_to)s)
    OR (stage + 0 < 2 AND lock_consumer_id IS DISTINCT FROM NULL AND at_ms + 0 >= %(leased_from)s
        AND at_ms + 0 < %(leased_to)s AND stage + 0 = ANY (%(leased_stages)s))
    OR (stage + 0 = 2 AND at_ms + 0 >= %(dead_from)s AND at_ms + 0 < %(dead_to)s)
)

-- name: by_id
-- Those whose ids begin in a way, in the order of ids.
{shown}
WHERE id >= %(first_id)s AND id < %(end_id)s AND id > %(after)s AND
    {standing}
ORDER BY id LIMIT %(limit)s

-- fragment: keys
SELECT id, version, producer_group FROM topic_messages

-- name: keys_by_instant
-- What may be changed, none that a consumer holds: enough to name each one and the version that was found.
SELECT * FROM (
    SELECT * FROM (
        {keys}
        WHERE topic_id = %(topic_id)s AND stage = 0 AND lock_consumer_id IS NULL
          AND at_ms >= %(free_from)s AND at_ms < %(free_to)s AND (%(any_group)s OR producer_group || '' = %(producer_group)s)
        ORDER BY at_ms LIMIT %(limit)s
    ) AS free
    UNION ALL
    SELECT * FROM (
        {keys}
        WHERE topic_id = %(topic_id)s AND stage < 2 AND lock_consumer_id IS NOT NULL
          AND at_ms >= %(leased_from)s AND at_ms < %(leased_to)s AND at_ms <= %(now_ms)s
          AND stage + 0 = ANY (%(leased_stages)s) AND (%(any_group)s OR producer_group || '' = %(producer_group)s)
        ORDER BY at_ms LIMIT %(limit)s
    ) AS leased
    UNION ALL
    SELECT * FROM (
        {keys}
        WHERE topic_id + 0 = %(topic_id)s AND stage = 2 AND at_ms >= %(dead_from)s AND at_ms < %(dead_to)s
          AND (%(any_group)s OR producer_group || '' = %(producer_group)s)
        ORDER BY at_ms LIMIT %(limit)s
    ) AS dead
) AS found
LIMIT %(limit)s

-- name: keys_by_id
{keys}
WHERE id >= %(first_id)s AND id < %(end_id)s AND (lock_consumer_id IS NOT DISTINCT FROM NULL OR at_ms + 0 <= %(now_ms)s) AND
    {standing}
ORDER BY id LIMIT %(limit)s

-- name: keys_of_ids
{keys}
WHERE id = ANY (%(ids)s) AND (lock_consumer_id IS NOT DISTINCT FROM NULL OR at_ms + 0 <= %(now_ms)s) AND
    {standing}
LIMIT %(limit)s
