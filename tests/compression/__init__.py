"""Tests of simfl.compression."""
