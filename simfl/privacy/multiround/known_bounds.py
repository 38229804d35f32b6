"""Whether a run's guarantees are exact, and what is said where they are not; importing this is light."""

from collections.abc import Mapping
from typing import Any

LOWER_BOUNDS = (
    "the weak and semi-strong guarantees are lower bounds: privacy.budget did not suffice, weights are not exact, or "
    "clip factors change from sum to sum"
)
"""Is said where :func:`are_bounds`."""


def are_bounds(numbers: Mapping[str, Any]) -> bool:
    """Whether only bounds of the weak guarantee are known, by a run's final values or their means, by name."""
    lower, upper = (numbers.get(f"privacy_weak_{end}") for end in ("lower", "upper"))
    return lower is not None and upper is not None and lower < upper
