"""From the bytes of a publisher to records in the active timeline."""
