"""The embedded stack: ZooKeeper, Kafka, PostgreSQL and nodes on one machine, with no Docker.

`supervisor` keeps the processes of one data directory; `plan` says which there are; one module per service says how it is
set up, started, asked whether it is ready, and stopped. `session.running` and `discovery.discover` are the doors for others.
"""
