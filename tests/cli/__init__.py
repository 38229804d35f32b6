"""Tests of simfl.cli."""
