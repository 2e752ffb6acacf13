"""What is coming: load ahead, beside what was and what consumers can do."""
