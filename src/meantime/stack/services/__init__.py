"""How each service of the embedded stack is set up, started and probed."""
