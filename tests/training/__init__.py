"""Tests of simfl.training."""
