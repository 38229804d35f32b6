"""Tests of simfl.selection."""
