"""Commands for topics: their messages, scheduling, consuming and the load to come."""
