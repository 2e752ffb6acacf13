"""The embedded stack: ZooKeeper, Kafka, PostgreSQL and nodes on one machine, with no Docker."""
