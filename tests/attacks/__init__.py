"""Tests of simfl.attacks."""
