"""Many runs: sweeps, comparisons, attacks on finished runs."""
