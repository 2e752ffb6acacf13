"""Routes of streams: event types, events, cursors, storages, timelines."""
