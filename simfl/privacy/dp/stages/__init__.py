"""What is done to updates and their sums so that they say less: one file a mechanism."""
