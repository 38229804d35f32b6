"""Tests of simfl.agents."""
