"""Routes for operators: API keys and the audit log, and which calls are acts that the log is told of."""
