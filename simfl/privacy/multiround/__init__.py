"""Multi-round privacy: what combining the aggregates of many rounds isolates."""
