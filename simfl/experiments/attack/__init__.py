"""Attacks on finished runs, and what theory says of them beforehand."""
