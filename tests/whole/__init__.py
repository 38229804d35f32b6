"""Tests of the installed whole: architecture, documentation, scripts."""
