"""What is done to updates and their sums so that they say less: one file a mechanism."""

from simfl.privacy.stages import (
    adaptive_gaussian,
    central_gaussian,
    clipping,
    discrete_gaussian,
    discrete_laplace,
    laplace_shares,
    local_gaussian,
    local_laplace,
    local_staircase,
    output_perturbation,
    skellam,
    tree_gaussian,
    xnoise,
)

__all__ = [
    "adaptive_gaussian", "central_gaussian", "clipping", "discrete_gaussian", "discrete_laplace", "laplace_shares",
    "local_gaussian", "local_laplace", "local_staircase", "output_perturbation", "skellam", "tree_gaussian", "xnoise",
]  # fmt: skip
