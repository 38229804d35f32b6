"""Tests of simfl.devices."""
