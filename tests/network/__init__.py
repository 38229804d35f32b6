"""Tests of simfl.network."""
