"""Event types as Parquet files, every event once."""
