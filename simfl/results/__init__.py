"""A run's folder: its files, tables, checkpoints, and the reader that checks them."""
