"""Multi-round privacy: what the server can learn by combining the aggregates of many rounds."""
