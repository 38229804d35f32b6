"""Tests of simfl.report."""
