"""Switching an event type to another storage, live; and cleaning up after it."""
