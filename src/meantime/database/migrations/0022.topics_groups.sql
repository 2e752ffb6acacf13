-- A message that is due when it is created, as jobs for now are, does not stay for long: it is left out of the index on the
-- producer group, which is a seventh of the server's work of creating it. Such a message has its instant in due_at_ms too,
-- until it is moved or given back; whoever lists a group looks for it among what is due.
UPDATE topic_messages SET due_at_ms = NULL WHERE stage = 0 AND lock_consumer_id IS NULL AND due_at_ms IS NOT NULL;
DROP INDEX topic_messages_group;
CREATE INDEX topic_messages_group ON topic_messages (producer_group, topic_id)
    WHERE producer_group IS NOT NULL AND lock_consumer_id IS NULL AND due_at_ms IS NULL;
