"""`meantime.events`: event types over all their timelines as frames."""
