"""One module per command or group of commands; each offers `register(app)`."""
