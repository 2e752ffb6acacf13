"""What a run was: as data, as text, and as one page with a timeline."""
