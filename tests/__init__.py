"""Tests of simfl, a folder for each of its packages."""
