"""Schedules: what recurs, as one message or timer per instant."""
