"""Servers that lie to their clients, and what it gains them."""
