"""`meantime schedules`: what recurs."""
