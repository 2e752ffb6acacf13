"""`/schedules`: what recurs."""
