"""Tests of simfl.results."""
