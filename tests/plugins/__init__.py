"""Tests of simfl.plugins."""
