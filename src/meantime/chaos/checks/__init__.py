"""One checker per invariant over recorded histories, and for each a planted defect that it must catch: all pure."""
