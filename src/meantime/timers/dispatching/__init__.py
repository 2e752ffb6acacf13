"""The dispatcher: holds timers until their second, fires them once."""
