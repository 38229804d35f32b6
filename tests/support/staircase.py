"""The density of staircase noise (Geng and Viswanath, ISIT 2014), written apart from the sampler."""

from math import exp, floor


def density(x: float, sensitivity: float, epsilon: float, gamma: float) -> float:
    """At x: a step of width gamma and one, e^-epsilon as high, of width 1 - gamma, in each sensitivity."""
    b, z = exp(-epsilon), abs(x) / sensitivity
    top = (1 - b) / (2 * sensitivity * (gamma + b * (1 - gamma)))
    return top * exp(-epsilon * (floor(z) + (z - floor(z) >= gamma)))
