"""Faults against any process of a stack, by a plan that follows from a seed."""
