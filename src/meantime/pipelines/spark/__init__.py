"""Spark itself: sessions, options of the sources, reports of streams."""
