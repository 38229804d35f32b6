"""One run: built, simulated, finalised."""
