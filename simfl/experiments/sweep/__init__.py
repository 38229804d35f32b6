"""Many runs of one scenario: a grid of values, run side by side, resumable, with one table."""
