"""The load to come, beside rates of the past and the capacity of consumers."""
