"""What is known about a policy before any round is played: its family of rows, and what the family implies."""

from itertools import combinations
from math import comb, lgamma, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.rng import Streams
from simfl.selection.bounds import convergence_bound, full_rank_probability
from simfl.selection.cardinality import expected_cardinality
from simfl.selection.shapes import KNOWN, name_of, unit

__all__ = [
    "family_size",
    "rows",
    "expected_cardinality",
    "convergence_bound",
    "full_rank_probability",
    "guarantee",
    "theory",
]

LARGEST = 10**6
"""Most rows that :func:`rows` lists."""


def family_size(policy: Any, n: int, k: int, t: int | None = None) -> int:
    """The number of rows that a policy may select, exact.

    For half_partition the rows are counted as choices of starts: with k = n the two choices cover the same clients.

    Args:
        policy: a policy or its name.
        n: clients.
        k: clients in an aggregation.
        t: unit size T of batch_partition and half_partition, otherwise not used.

    Raises:
        ValueError: the policy's family is not known, or the sizes do not fit together.

    References:
        MR (arXiv 2106.03328) equation 8; HP, Half Partitioning. MR Table 1 prints 91389 for C(40, 4) = 91390.
    """
    name, size, half = unit(policy, n, k, t)
    if name in ("all", "bernoulli"):
        return 2**n
    if half:  # multiplied out first: the quotient 2n/k alone need not be whole
        return 2 * n * comb(2 * n // size - k // size - 1, k // size - 1) // k
    return comb(n // size, k // size)


def rows(policy: Any, n: int, k: int, t: int | None = None) -> NDArray[np.uint8]:
    """Every row of a small family, 0/1, shape (family_size, n); rows in the order of their first units.

    Raises:
        ValueError: as :func:`family_size`, or the family has more than a million rows.
    """
    if (size := family_size(policy, n, k, t)) > LARGEST:
        raise ValueError(f"the family has more than {LARGEST:.0e} rows")
    name, width, half = unit(policy, n, k, t)
    if name in ("all", "bernoulli"):
        return (np.arange(size)[:, None] >> np.arange(n) & 1).astype(np.uint8)
    need = k // width
    result = np.zeros((size, n // width * (1 + half), width // (1 + half)), dtype=np.uint8)
    circle = result.shape[1]
    if not half:
        for row, blocks in enumerate(combinations(range(circle), need)):
            result[row, list(blocks)] = 1
        return result.reshape(size, n)
    # strictly rising gaps of at least two, then those that are adjacent around the end left out
    spread = (tuple(c + i for i, c in enumerate(chosen)) for chosen in combinations(range(circle - need + 1), need))
    apart = (starts for starts in spread if not (starts[0] == 0 and starts[-1] == circle - 1))
    for row, starts in enumerate(apart):
        result[row, [half_batch % circle for start in starts for half_batch in (start, start + 1)]] = 1
    return result.reshape(size, n)


def theory(scenario: Any) -> dict[str, Any]:
    """What theory says about a scenario's selection, beside which simulated values are put.

    Returns:
        ``policy, clients, k, T`` (the unit), ``mode``; ``family_size`` (None from 10^100 on) and its logarithm
        ``family_size_log10``; ``expected_cardinality`` before failures after selection (None where dropout rates are
        not known or clients do not drop out independently of each other); ``guarantee``: the strong, semi-strong and
        weak multi-round privacy that holds for any number of rounds; ``full_rank_probability`` after as many rounds
        as clients (bernoulli with equal dropout only). None for all that is not known of a policy's family.
    """
    policy, n = scenario.selection, scenario.clients
    streams = Streams(scenario.seed)
    result: dict[str, Any] = {"policy": name_of(policy), "clients": n, "k": policy.k, "T": policy.unit_size}
    result["mode"] = getattr(policy, "mode", None)
    unknown = ("family_size", "family_size_log10", "expected_cardinality", "guarantee", "full_rank_probability")
    result |= dict.fromkeys(unknown)
    if result["policy"] not in KNOWN:
        return result
    name, size, half = unit(policy, n, policy.k, policy.unit_size)
    result["family_size_log10"] = _log10_size(name, n, policy.k, size, half)
    if result["family_size_log10"] < 100:
        result["family_size"] = family_size(policy, n, policy.k, size)
    available = scenario.devices.availability.build(scenario, streams)
    dropout = available.dropout
    if dropout is not None:
        dropout = np.broadcast_to(np.asarray(dropout, dtype=np.float64), n)
        if getattr(policy, "shuffle", False):
            dropout = dropout[streams("assignment").permutation(n)]
        if name in ("all", "bernoulli") or getattr(available, "independent", True):
            result["expected_cardinality"] = expected_cardinality(policy, n, policy.k, size, dropout)
        if name == "bernoulli" and (dropout == dropout[0]).all():
            result["full_rank_probability"] = full_rank_probability(n, result["expected_cardinality"])
    result["guarantee"] = guarantee(scenario)
    return result


def guarantee(scenario: Any) -> dict[str, int] | None:
    """The strong, semi-strong and weak multi-round privacy that holds for any number of rounds.

    None where the policy's family is not known. It rests on units that are aggregated whole, with one weight.
    """
    policy, n = scenario.selection, scenario.clients
    if name_of(policy) not in KNOWN:
        return None
    name, size, half = unit(policy, n, policy.k, policy.unit_size)
    strong, weak = (n, n) if _everyone(scenario, name) else (size // 2 if half else size, size)
    return {"strong": strong, "semi_strong": weak, "weak": weak}


def _everyone(scenario: Any, name: str) -> bool:
    """Whether every aggregation holds all clients."""
    if scenario.selection.k != scenario.clients or name == "bernoulli":
        return False
    if name != "all":
        return True
    dropout = scenario.devices.availability.build(scenario, Streams(scenario.seed)).dropout
    return dropout is not None and not np.any(dropout)


def _log10_size(name: str, n: int, k: int, size: int, half: bool) -> float:
    def log_comb(a: int, b: int) -> float:
        return lgamma(a + 1) - lgamma(b + 1) - lgamma(a - b + 1)

    if name in ("all", "bernoulli"):
        natural = n * log(2)
    elif half:
        natural = log(2 * n / k) + log_comb(2 * n // size - k // size - 1, k // size - 1)
    else:
        natural = log_comb(n // size, k // size)
    return natural / log(10)
