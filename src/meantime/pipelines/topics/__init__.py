"""`meantime.topic`: topics as frames, as a sink, and as a stream of what is due."""
