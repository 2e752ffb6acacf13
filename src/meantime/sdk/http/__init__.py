"""HTTP of the clients: httpx, and direct connections where neither TLS nor a proxy is needed."""
