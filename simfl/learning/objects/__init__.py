"""A user's own model, data set or partition: a Python object, handed in or named as ``module:attribute``."""
