"""What a client computes: client algorithms, one file each."""
