"""Helpers of the tests: independent computations, generators, recorders."""
