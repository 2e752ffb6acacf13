"""Routes of topics: settings, messages, leases."""
