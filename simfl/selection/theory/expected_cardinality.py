"""What theory says about a scenario's selection, beside which simulated values are put."""

from itertools import pairwise
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simfl.core.coverage import beside_sums, confirms, follows_policy, sent, unstated_weights
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView, can_lose_clients, dropout_rates, failure_rates, never_fails
from simfl.core.validation import checked_type
from simfl.selection.asking import order_of_clients
from simfl.selection.base import CanBeAsked, HasRows
from simfl.selection.theory.families import Family

LARGEST_LOG10 = 100
"""Families of more rows are told by the logarithm of their size only."""


def theory(setting: ScenarioView, samples: NDArray[np.int64] | None = None) -> JsonObject:
    """What follows from the family of a scenario's policy, before the first round.

    Args:
        setting: the scenario.
        samples: training samples of each client, shape (clients,); None = not known.

    Returns:
        ``policy, clients, k, T`` (the unit), ``mode``; ``family_size`` (None from 10^100 on) and its logarithm
        ``family_size_log10``; ``expected_selected``: clients selected in a round, before failures (None where dropout
        rates are not known or clients do not drop out independently of each other); ``expected_cardinality``: those
        of them that are aggregated after failures (None where rates of failure are not known, or differ and a policy
        looks at the past; asynchronous rules: None); ``left_out``: what that number knows nothing of; ``guarantee``:
        the strong, semi-strong and weak multi-round privacy that holds for any number of rounds;
        ``guarantee_malicious``, the semi-strong one if the server lies; ``without_samples``,
        clients that hold none, if there are any; ``full_rank_probability`` after as many rounds as clients (bernoulli
        with equal dropout only). None for all that is not known: everything about a policy that declares no family.
    """
    policy = setting.selection
    n = setting.clients
    about = {"policy": policy.name, "clients": n, "k": policy.k, "T": policy.unit_size, "mode": policy.mode}
    known = ("family_size", "family_size_log10", "expected_selected", "expected_cardinality", "left_out", "guarantee",
             "guarantee_malicious", "full_rank_probability")  # fmt: skip
    result: JsonObject = about | dict.fromkeys(known)
    family, gave = policy.family(n), f"selection '{policy.name}'"
    checked_type(family, (HasRows, NoneType), gave, "family", "a family of rows or None")
    result["guarantee"] = guarantee(setting, samples)
    result["guarantee_malicious"] = guarantee_malicious(setting, samples)
    if samples is not None and not samples.all():
        result["without_samples"] = int((samples == 0).sum())
    if family is None:
        return result
    result["family_size_log10"] = family.size_log10()
    if result["family_size_log10"] < LARGEST_LOG10:
        result["family_size"] = family.size()
    streams = Streams(setting.seed)
    availability = setting.devices.availability
    dropout = dropout_rates(setting)
    here = None if dropout is None else _present(dropout, n)
    if here is not None:
        order = order_of_clients(policy, n, streams)
        here = here[order]
        if availability.independent or not family.independent:
            result["expected_selected"] = family.cardinality(here)
        result["expected_cardinality"] = _aggregated_cardinality(setting, family, here, order)
        result["full_rank_probability"] = family.full_rank(here)
    if result["expected_cardinality"] is not None or (setting.training.losses and setting.training.losses.quorum):
        result["left_out"] = left_out(setting)
    return result


def _aggregated_cardinality(
    setting: ScenarioView, family: Family, here: NDArray[np.float64], order: NDArray[np.integer]
) -> float | None:
    """Mean number of clients aggregated in a round, in twelve digits (further ones are the processor's), or None.

    ``here`` is the probability that the client in each place of the family, ``order``, is available.
    """
    losses = setting.training.losses
    rates = failure_rates(setting)
    if losses is None or losses.quorum or rates is None:  # who is fast decides
        return None
    independent = family.independent or losses.on_failure == "abort"
    if independent and not setting.devices.availability.independent:
        return None
    policy = setting.selection
    mean = family.aggregated_cardinality(here, 1.0 - rates[order], losses.on_failure, policy.uniform)
    return None if mean is None else float(f"{mean:.12g}")


def left_out(setting: ScenarioView) -> list[str]:
    """What the expected cardinality knows nothing of, as keys of the scenario."""
    losses, poor = setting.training.losses, not setting.learning.everybody_holds_samples
    late = losses is not None and losses.deadline_s is not None
    quorum = losses is not None and losses.quorum
    factors = {
        "training.quorum": quorum,
        "training.deadline_s": late,
        "learning (clients without samples)": poor,
        "selection (confirmations)": setting.selection.receipts(setting.clients) is not None,
        "secagg": setting.secagg.phases,
    }
    return [what for what, there in factors.items() if there]


def guarantee(setting: ScenarioView, samples: NDArray[np.int64] | None = None) -> dict[str, int | None] | None:
    """The strong, semi-strong and weak multi-round privacy that holds for any number of rounds; None = not known.

    Nothing is known where the policy declares no family and sees to no guarantee itself, where its family cannot be
    asked what it contains, or where its units may be broken up: it rests on units that are aggregated whole, with one
    weight, and a client without samples is in no sum (``samples``, shape (clients,), says who holds how many; None =
    not known). 1 where the server sees or needs single updates, more leaves the clients than updates that are summed,
    or these are clipped to lengths that change, or weighed otherwise than the rule states. Where everybody is selected
    in every round, all of them hide each other only if nobody is ever lost; otherwise their units do. 1 where sums may
    fail, or be refused, and the protocol does not say that they are closed. With
    ``privacy.rows: weights`` only the weak guarantee follows: numbers of samples, which nobody knows yet, scale the
    columns.
    """
    policy, n = setting.selection, setting.clients
    upheld, family = policy.guarantee(n), policy.family(n)
    if (upheld is None and family is None) or not sent(setting):
        return None
    if beside_sums(setting) or unstated_weights(setting, samples) or not follows_policy(setting):
        return {"strong": 1, "semi_strong": 1, "weak": 1}
    may_refuse = upheld is not None and not _everybody_counts(setting, samples)
    if not setting.secagg.closes_failures and (can_lose_clients(setting) or may_refuse):
        return {"strong": 1, "semi_strong": 1, "weak": 1}  # a failed or refused sum may be seen, and is none of them
    if upheld is not None:
        return upheld._asdict()
    if not isinstance(family, CanBeAsked):
        return None
    units_alone = setting.secagg.sums_units  # each unit's sum is opened, whatever the aggregate makes of them
    if not (setting.training.keeps_units or units_alone) or not _everybody_counts(setting, samples):
        return None
    dropout = dropout_rates(setting)
    strong, weak = family.guarantee(None if dropout is None else _present(dropout, n))
    if weak > policy.unit_size and (units_alone or not _never_loses_anybody(setting)):
        strong, weak = _least_class(family), policy.unit_size
    if setting.privacy.rows == "weights" and setting.training.by_samples:  # columns are scaled, each in its own way
        return {"strong": None, "semi_strong": None, "weak": weak}
    return {"strong": strong, "semi_strong": weak, "weak": weak}


def guarantee_malicious(setting: ScenarioView, samples: NDArray[np.int64] | None = None) -> int:
    """The semi-strong privacy that holds for any number of rounds if the server lies; 1 where nothing is known.

    Proved in docs/explanation/proofs/verifiable.md where clients check what they are told (``Policy.receipts``), the
    protocol opens only what they confirm, and its failures are closed: the server can then choose which whole units are
    in a sum, and nothing else. The other conditions, and ``samples``, are those of :func:`guarantee`.
    """
    policy, n, protocol = setting.selection, setting.clients, setting.secagg
    family = policy.family(n)
    if policy.receipts(n) is None or not (protocol.opens_confirmed and protocol.closes_failures):
        return 1
    if not isinstance(family, CanBeAsked) or not sent(setting) or beside_sums(setting):
        return 1
    if unstated_weights(setting, samples) or not _everybody_counts(setting, samples):
        return 1
    if not setting.training.keeps_units or (setting.privacy.rows == "weights" and setting.training.by_samples):
        return 1
    if setting.training.sybils or not confirms(setting):
        return 1
    return min(policy.unit_size, family.guarantee(None)[1])


def keeps_to_family(setting: ScenarioView, P: Any, loses_units: bool = False) -> bool:
    """Whether every sum of a run is one that the policy's family knows of; where the policy itself sees to its
    guarantee, its family is not asked.

    Args:
        setting: the scenario.
        P: the weights of the clients in each sum, scipy CSR (rounds, clients); members of a unit have one weight.
        loses_units: any units may be missing, as a server that lies may say of those that it does not want.
    """
    policy, n = setting.selection, setting.clients
    family = policy.family(n) if policy.guarantee(n) is None else None
    if family is None:
        return True
    order = order_of_clients(policy, n, Streams(setting.seed))
    place, losses = np.argsort(order), loses_units or not _never_loses_anybody(setting)
    for first, end in pairwise(P.indptr.tolist()):
        members, weights = place[P.indices[first:end]], P.data[first:end]
        for weight in set(weights.tolist()) - {0.0}:
            if not family.contains(np.sort(members[weights == weight]), losses):
                return False
    return True


def _everybody_counts(setting: ScenarioView, samples: NDArray[np.int64] | None) -> bool:
    """Whether every client certainly holds samples in every round: the update of one without hides nobody."""
    if samples is None or setting.learning.counts_change:
        return setting.learning.everybody_holds_samples
    return bool(samples.all())


def _never_loses_anybody(setting: ScenarioView) -> bool:
    """Whether everybody who is selected is certainly in the sum, or there is none."""
    losses = setting.training.losses
    if losses is None or losses.quorum or setting.training.algorithm.follows_data:
        return False
    on_time = losses.deadline_s is None and setting.secagg.deadline_s is None
    return losses.on_failure == "abort" or (on_time and never_fails(setting))


def _least_class(family: Family) -> int:
    """The fewest clients that are in the same units: what the strong guarantee is if any units may be summed."""
    units = family.units()
    members, of = units.ravel(), np.repeat(np.arange(len(units)), units.shape[1])
    order, counts = np.argsort(members, kind="stable"), np.bincount(members, minlength=family.clients)
    place = np.arange(len(members)) - np.repeat(np.cumsum(counts) - counts, counts)
    memberships = np.full((family.clients, counts.max()), -1)
    memberships[members[order], place] = of[order]
    return int(np.unique(memberships, axis=0, return_counts=True)[1].min())


def expected_cardinality(family: Family, dropout: ArrayLike) -> float:
    """Mean number of clients selected in a round: K times the probability that some row is available.

    Clients are available independently of each other; who took part before does not matter. Exact but for rounding.
    ``dropout`` is the probability of being unavailable, a number or float (clients,), client 0 first.

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
