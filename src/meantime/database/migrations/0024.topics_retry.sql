-- When a message that is given back without an instant is due again.
ALTER TABLE topics ADD COLUMN retry jsonb NOT NULL DEFAULT '{"delay_ms": 1000, "factor": 2.0, "max_ms": 3600000, "jitter": 0.1}';
-- Why consumers gave a message back, the latest last: [{attempt, at_ms, consumer_id, reason}]. Most messages have none.
ALTER TABLE topic_messages ADD COLUMN history jsonb;
