"""Distributed noise that nobody can read."""
