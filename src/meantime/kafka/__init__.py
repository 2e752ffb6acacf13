"""Kafka: the settings of every client, administration, producer, consumer, sealing of topics."""
