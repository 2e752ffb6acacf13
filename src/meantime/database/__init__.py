"""PostgreSQL: the pool, the migrations and the loader of named queries."""
