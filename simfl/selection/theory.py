"""What theory says about a scenario's selection, beside which simulated values are put."""

from typing import Any

from simfl.rng import Streams
from simfl.selection.base import Policy
from simfl.selection.families import present
from simfl.setting import Setting

__all__ = ["theory"]

LARGEST_LOG10 = 100
"""Families of more rows are told by the logarithm of their size only."""


def theory(setting: Setting) -> dict[str, Any]:
    """What follows from the family of a scenario's policy, before any round is played.

    Returns:
        ``policy, clients, k, T`` (the unit), ``mode``; ``family_size`` (None from 10^100 on) and its logarithm
        ``family_size_log10``; ``expected_cardinality`` before failures after selection (None where dropout rates are
        not known or clients do not drop out independently of each other); ``guarantee``: the strong, semi-strong and
        weak multi-round privacy that holds for any number of rounds; ``full_rank_probability`` after as many rounds
        as clients (bernoulli with equal dropout only). None for all that is not known: everything about a policy
        that declares no family.
    """
    policy: Policy = setting.selection  # type: ignore[assignment]
    n = setting.clients
    about = {"policy": policy.name, "clients": n, "k": policy.k, "T": policy.unit_size, "mode": policy.mode}
    known = ("family_size", "family_size_log10", "expected_cardinality", "guarantee", "full_rank_probability")
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
    here = None if dropout is None else present(dropout, n)
    if here is not None:
        if policy.shuffle:
            here = here[streams("assignment").permutation(n)]
        if availability.independent or not family.independent:
            result["expected_cardinality"] = family.cardinality(here)
        result["full_rank_probability"] = family.full_rank(here)
    strong, weak = family.guarantee(here)
    result["guarantee"] = {"strong": strong, "semi_strong": weak, "weak": weak}
    return result
