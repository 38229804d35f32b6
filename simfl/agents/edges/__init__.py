"""Aggregators between clients and a cloud, and servers beside one another."""
