"""Differential privacy: mechanisms of noise, stages that add it, accountants of what it leaves."""
