"""Timers: call me back at this second."""
