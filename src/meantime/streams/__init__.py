"""*What has happened?* Event types on Kafka, read by cursor; their storage is switched live by timelines."""
