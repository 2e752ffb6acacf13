"""The Spark job of timers: requests joined with ticks."""
