"""Tests of simfl.runs."""
