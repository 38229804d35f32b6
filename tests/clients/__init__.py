"""Tests of simfl.clients."""
