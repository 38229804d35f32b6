"""Tests of simfl.learning."""
