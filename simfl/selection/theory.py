"""What theory says about a scenario's selection, beside which simulated values are put."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simfl.coverage import exposing, sent
from simfl.rng import Streams
from simfl.selection.base import Policy
from simfl.selection.families import Family
from simfl.setting import Setting

__all__ = ["expected_cardinality", "guarantee", "rows", "theory"]

LARGEST = 10**6
"""Most rows that :func:`rows` lists."""

LARGEST_LOG10 = 100
"""Families of more rows are told by the logarithm of their size only."""


def theory(setting: Setting) -> dict[str, Any]:
    """What follows from the family of a scenario's policy, before any round is played.

    Returns:
        ``policy, clients, k, T`` (the unit), ``mode``; ``family_size`` (None from 10^100 on) and its logarithm
        ``family_size_log10``; ``expected_selected``: clients selected in a round, before failures (None where dropout
        rates are not known or clients do not drop out independently of each other); ``expected_cardinality``: those
        of them that are aggregated after failures (None where rates of failure are not known, or differ and a policy
        looks at the past; asynchronous rules: None); ``left_out``: what that number knows nothing of; ``guarantee``:
        the strong, semi-strong and weak multi-round privacy that holds for any number of rounds;
        ``full_rank_probability`` after as many rounds as clients (bernoulli with equal dropout only). None for all
        that is not known: everything about a policy that declares no family.
    """
    policy: Policy = setting.selection  # type: ignore[assignment]
    n = setting.clients
    about = {"policy": policy.name, "clients": n, "k": policy.k, "T": policy.unit_size, "mode": policy.mode}
    known = ("family_size", "family_size_log10", "expected_selected", "expected_cardinality", "left_out", "guarantee",
             "full_rank_probability")  # fmt: skip
    result: dict[str, Any] = about | dict.fromkeys(known)
    family = policy.family(n)
    if family is None:
        return result
    result["family_size_log10"] = family.size_log10()
    if result["family_size_log10"] < LARGEST_LOG10:
        result["family_size"] = family.size()
    streams = Streams(setting.seed)
    availability = setting.devices.availability
    dropout = availability.build(setting, streams).dropout
    here = None if dropout is None else _present(dropout, n)
    if here is not None:
        order = streams("assignment").permutation(n) if policy.shuffle else np.arange(n)
        here = here[order]
        if availability.independent or not family.independent:
            result["expected_selected"] = family.cardinality(here)
        result["expected_cardinality"] = _aggregated(setting, family, here, order)
        result["full_rank_probability"] = family.full_rank(here)
    if result["expected_cardinality"] is not None:
        result["left_out"] = _left_out(setting)
    result["guarantee"] = _guarantee(setting, family, here)
    return result


def _aggregated(
    setting: Setting, family: Family, here: NDArray[np.float64], order: NDArray[np.integer]
) -> float | None:
    """Mean number of clients aggregated in a round, in twelve digits (further ones are the processor's), or None.

    Args:
        here: of the client in each place of the family, the probability of being available.
        order: that client.
    """
    losses = setting.training.losses
    rates = setting.devices.failure.rates(setting, Streams(setting.seed))
    if losses is None or rates is None:
        return None
    apart = family.independent or losses.on_failure == "abort"
    if apart and not setting.devices.availability.independent:
        return None
    policy: Policy = setting.selection  # type: ignore[assignment]
    mean = family.aggregated(here, 1.0 - rates[order], losses.on_failure, policy.uniform)
    return None if mean is None else float(f"{mean:.12g}")


def _left_out(setting: Setting) -> list[str]:
    """What the expected cardinality knows nothing of, as keys of the scenario."""
    late, poor = setting.training.losses.deadline_s is not None, not setting.learning.everybody_holds_samples
    found = {"training.deadline_s": late, "learning (clients without samples)": poor, "secagg": setting.secagg.phases}
    return [what for what, there in found.items() if there]


def guarantee(setting: Setting) -> dict[str, int] | None:
    """The strong, semi-strong and weak multi-round privacy that holds for any number of rounds.

    None where the policy declares no family, or the rule breaks up its units: it rests on units that are aggregated
    whole, with one weight. 1 where the rule needs single updates, or more leaves the clients than updates that are
    summed.
    """
    policy: Policy = setting.selection  # type: ignore[assignment]
    family = policy.family(setting.clients)
    if family is None:
        return None
    dropout = setting.devices.availability.build(setting, Streams(setting.seed)).dropout
    return _guarantee(setting, family, None if dropout is None else _present(dropout, setting.clients))


def _guarantee(setting: Setting, family: Family, present: NDArray[np.float64] | None) -> dict[str, int] | None:
    if not sent(setting):
        return None
    if not setting.training.aggregate.sum_only or exposing(setting):
        return {"strong": 1, "semi_strong": 1, "weak": 1}
    if not setting.training.keeps_units:
        return None
    strong, weak = family.guarantee(present)
    return {"strong": strong, "semi_strong": weak, "weak": weak}


def rows(family: Family) -> NDArray[np.uint8]:
    """Every row of a small family, 0/1, shape (size, clients); rows in the order of their first units.

    Raises:
        ValueError: the family has more than a million rows.
    """
    if (size := family.size()) > LARGEST:
        raise ValueError(f"the family has more than {LARGEST:.0e} rows")
    result = np.zeros((size, family.clients), dtype=np.uint8)
    for row, clients in zip(result, family.listed(), strict=True):
        row[clients] = 1
    return result


def expected_cardinality(family: Family, dropout: ArrayLike) -> float:
    """Mean number of clients selected in a round: K times the probability that some row is available.

    Clients are available independently of each other; who took part before does not matter. Exact but for rounding.

    Args:
        family: of the policy.
        dropout: probability of being unavailable, a number or float (clients,), client 0 first.

    Raises:
        ValueError: ``dropout`` is no probability for each client.
    """
    return family.cardinality(_present(dropout, family.clients))


def _present(dropout: ArrayLike, clients: int) -> NDArray[np.float64]:
    """Each client's probability of being available, float64 (clients,).

    Raises:
        ValueError: ``dropout`` is no probability for each client.
    """
    here = 1.0 - np.asarray(dropout, dtype=np.float64)
    if here.ndim > 1 or (here.ndim == 1 and len(here) != clients):
        raise ValueError(f"dropout must be a number or {clients} numbers, not of shape {here.shape}")
    if not ((here >= 0) & (here <= 1)).all():
        raise ValueError("dropout probabilities must lie between 0 and 1")
    return np.broadcast_to(here, clients)
