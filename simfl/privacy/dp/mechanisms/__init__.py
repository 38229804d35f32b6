"""Distributions of noise: exact samplers from the run's streams, and what each guarantees in closed form."""
