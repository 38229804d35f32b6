"""Accountants: epsilon of each client over the rounds that it took part in."""
