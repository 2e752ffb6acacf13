"""Routes of applications and their queues."""
