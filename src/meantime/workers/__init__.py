"""Who does the work? Applications, their workers, and queues that each have one owner."""
