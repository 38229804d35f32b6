"""What a certificate is: maps from what clients train to what is seen of it, and what they leave of a difference."""
