-- How many messages per second the consumers of a topic have shown that they can finish, by the node they finished them at.
CREATE TABLE topic_rates (
    topic_id int NOT NULL REFERENCES topics (topic_id) ON DELETE CASCADE,
    node_id text NOT NULL,
    rate double precision NOT NULL,
    told_at_ms bigint NOT NULL,
    PRIMARY KEY (topic_id, node_id)
);
