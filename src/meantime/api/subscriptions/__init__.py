"""Routes of subscriptions."""
