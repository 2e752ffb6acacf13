"""Event types, storages and timelines as declared, stored and cached."""
