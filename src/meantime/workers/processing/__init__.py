"""The work on queues: messages in, jobs, failures and retries."""
