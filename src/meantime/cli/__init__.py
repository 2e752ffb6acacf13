"""The command line: thin commands over the SDK, the embedded stack and the processes."""
