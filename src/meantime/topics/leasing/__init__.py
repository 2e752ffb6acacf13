"""Taking messages when they are due: pulls, streams, and who gets what."""
