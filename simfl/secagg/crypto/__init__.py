"""Cryptography of the protocols: fields, shares of secrets, keys, whole numbers."""
