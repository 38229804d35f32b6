"""Tests of simfl.remote."""
