"""HTTP/1.1 and HTTP/2 on the node's own event loop: connections, exchanges, limits. Knows nothing of routes."""
