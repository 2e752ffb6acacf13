"""HTTP of the clients: httpx, and a shorter way where nothing lies between."""
