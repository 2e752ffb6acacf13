"""Composition roots: where the parts of each process meet."""
