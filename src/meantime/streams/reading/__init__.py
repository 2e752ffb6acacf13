"""Streams of events over all timelines, from cursors that clients keep."""
