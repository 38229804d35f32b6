"""Observers of what an aggregator sees."""
