"""The HTTP edge: one route table, problem documents, limits."""
