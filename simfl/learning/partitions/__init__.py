"""Partitions of the training samples over the clients: one file a way."""
