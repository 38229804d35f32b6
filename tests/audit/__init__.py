"""Tests of simfl.audit."""
