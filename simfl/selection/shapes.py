"""The shape of each policy's family: what its units are. All theory about families starts here."""

from typing import Any

from simfl.selection.sizes import at_most_clients, group_problems, unit_problems

__all__ = ["KNOWN", "name_of", "unit"]

KNOWN = ("all", "batch_partition", "bernoulli", "half_partition", "partition", "random", "weighted")
"""Policies whose family is known."""


def name_of(policy: Any) -> str:
    """The policy's name; a name is its own."""
    return policy if isinstance(policy, str) else policy.name


def unit(policy: Any, n: int, k: int, t: int | None) -> tuple[str, int, bool]:
    """The policy's name, the size of its units, and whether a unit is two neighbouring half-batches.

    Args:
        policy: a policy or its name.
        n: clients.
        k: clients in an aggregation.
        t: unit size T of batch_partition and half_partition, otherwise not used.

    Raises:
        ValueError: the policy's family is not known, or the sizes do not fit together.
    """
    name = name_of(policy)
    if name not in KNOWN:
        raise ValueError(f"no theory for selection '{name}'; there is for {', '.join(KNOWN)}")
    sized = name in ("batch_partition", "half_partition")
    if sized and t is None:
        raise ValueError(f"{name} needs its unit size t")
    if n < 1 or (k is not None and k < 1) or (sized and t < 1):
        raise ValueError("n, k and t must be at least 1")
    half = name == "half_partition"
    if sized:
        size, problems = t, unit_problems(k, t, n, half)
    elif name == "partition":
        size, problems = k, group_problems(k, n)
    else:
        size, problems = 1, [] if name == "all" else at_most_clients(k, n)
    if problems:
        raise ValueError("; ".join(f"{field} {message}" for field, message in problems))
    return name, size, half
