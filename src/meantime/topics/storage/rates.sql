-- name: tell_rates
INSERT INTO topic_rates AS r (topic_id, node_id, rate, told_at_ms)
SELECT x.topic_id, %(node_id)s, x.rate, %(now_ms)s FROM unnest(%(topic_ids)s, %(rates)s) AS x (topic_id, rate)
WHERE EXISTS (SELECT 1 FROM topics AS t WHERE t.topic_id = x.topic_id)
ON CONFLICT (topic_id, node_id) DO UPDATE SET rate = excluded.rate, told_at_ms = excluded.told_at_ms

-- name: capacities
-- The sum over the nodes at which consumers were busy at the same time, as far as it was told: about when anything was last.
SELECT r.topic_id, sum(r.rate), max(r.told_at_ms) FROM topic_rates AS r
WHERE r.topic_id = ANY (%(topic_ids)s)
  AND r.told_at_ms >= (SELECT max(o.told_at_ms) FROM topic_rates AS o WHERE o.topic_id = r.topic_id) - %(together_ms)s
GROUP BY r.topic_id
