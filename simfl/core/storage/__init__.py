"""Files that survive a kill, the data folder, and the cache of decoded data."""
