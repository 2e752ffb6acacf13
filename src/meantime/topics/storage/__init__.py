"""Topics in PostgreSQL: statements, counts, notifications."""
