"""Fault suites: the real system under load while its processes are killed and frozen, judged from recorded histories."""
