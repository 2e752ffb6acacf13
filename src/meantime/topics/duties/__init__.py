"""Background duties of topics: dead letters, purging, overload warnings."""
