"""Metrics of users' own: what they look at after every round and at the end, and the columns they fill."""
