"""Tests of simfl.deployment.remote."""
