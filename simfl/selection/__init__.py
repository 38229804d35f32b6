"""Who takes part: one file per policy."""
