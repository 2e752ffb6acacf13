"""Meantime: an event broker with a sense of time."""

__version__ = "0.1.0"
