"""Clients of the HTTP API, sync and async over one core without I/O."""
