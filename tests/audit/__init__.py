"""Tests of simfl.deployment.audit."""
