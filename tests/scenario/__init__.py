"""Tests of simfl.scenario."""
