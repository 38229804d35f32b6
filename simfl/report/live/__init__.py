"""Runs that are watched while they go on."""
