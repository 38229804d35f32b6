"""Ways to personal models: one file each."""
