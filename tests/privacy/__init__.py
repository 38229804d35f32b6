"""Tests of simfl.privacy."""
