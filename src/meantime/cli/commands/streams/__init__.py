"""Commands for event types: creating, publishing, reading, switching; storages and subscriptions."""
