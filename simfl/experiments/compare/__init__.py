"""Configurations side by side under the same draws: means, paired differences, their confidence intervals."""
