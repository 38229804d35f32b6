"""Tests of simfl.core."""
