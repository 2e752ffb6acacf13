"""Consumers: leases taken, kept alive and handed out."""
