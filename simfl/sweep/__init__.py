"""Many runs of one scenario: a grid of values, played side by side, resumable, with one table."""
