"""Tests of simfl.experiments."""
