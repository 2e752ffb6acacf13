"""The console: the files that a browser is given, and the live state that it is shown."""
