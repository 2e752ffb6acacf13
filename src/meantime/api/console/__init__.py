"""Routes of the console: its files, logging in, and the stream of what happens now."""
