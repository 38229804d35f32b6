"""Which simfl this is."""

VERSION = "0.1.0"

RESULTS = 6
"""Counts the changes that alter results of existing scenarios (CHANGELOG.md, Results); it is part of every digest, so
that results of an older simfl are never taken for complete."""
