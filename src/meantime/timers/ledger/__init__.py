"""The ledger: what was requested and how it ended."""
