"""Tests of simfl.metrics."""
