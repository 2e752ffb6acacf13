"""The time buffer: what enters one end leaves the other a fixed time later."""
