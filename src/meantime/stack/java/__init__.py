"""Java for the embedded stack: the runtime, the jars, and class archives for faster starts."""
