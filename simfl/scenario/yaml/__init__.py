"""Strict YAML: text in, data with places out, and back."""
