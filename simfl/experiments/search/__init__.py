"""Search for the best values of keys: Optuna proposes, the sweep's workers run, nothing else decides."""
