"""Tests of simfl.secagg."""
