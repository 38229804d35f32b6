"""Tests of simfl.api."""
