"""How updates are coded to take fewer bytes on their way to the server."""
