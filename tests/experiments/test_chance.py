"""Fairness beside chance: a policy that favours nobody has an excess of about nothing."""

import numpy as np
import pytest
from scipy.stats import binom

from simfl.experiments.compare.run_numbers import chance_range, measures


def test_the_expected_range_is_that_of_all_outcomes():
    """By brute force: few clients, each in each of few sums with the same probability; but for the correlation."""
    for clients, sums, share in ((2, 3, 0.3), (3, 2, 0.5), (3, 4, 0.2), (1, 5, 0.5)):
        law = binom(sums, share).pmf(np.arange(sums + 1))
        places = np.indices([sums + 1] * clients).reshape(clients, -1)
        expected = (law[places].prod(axis=0) * np.ptp(places, axis=0)).sum()
        assert chance_range(clients, sums, share) == pytest.approx(expected * np.sqrt(clients / max(1, clients - 1)))


@pytest.mark.parametrize(("clients", "k", "rounds"), [(40, 8, 60), (40, 8, 10), (100, 10, 200), (12, 6, 30)])
def test_uniform_selection_has_no_excess(clients, k, rounds):
    """A program of its own: k of N without replacement in every round."""
    rng = np.random.default_rng(clients)
    gaps = []
    for _ in range(400):
        counts = np.bincount(np.concatenate([rng.choice(clients, k, replace=False) for _ in range(rounds)]),
                             minlength=clients)  # fmt: skip
        gaps.append(np.ptp(counts) / rounds)
    chance = chance_range(clients, rounds, k / clients) / rounds
    assert np.mean(gaps) == pytest.approx(chance, rel=0.03)


def test_who_skips_is_not_fairer_and_sums_are_as_large_as_they_are():
    """Twenty of forty rounds skipped: the gap is half as large, and so is chance; skipped rounds have no sums."""
    whole = {"clients": 40, "rounds": 20, "skipped": 0, "mean_cardinality": 8.0, "fairness_gap": 0.4}
    halved = {"clients": 40, "rounds": 40, "skipped": 20, "mean_cardinality": 4.0, "fairness_gap": 0.2}
    first, second = measures(whole), measures(halved)
    assert first["clients_in_sum"] == second["clients_in_sum"] == 8
    assert second["fairness_excess"] == pytest.approx(first["fairness_excess"] / 2)
    never = measures(halved | {"skipped": 40, "mean_cardinality": 0.0, "fairness_gap": 0.0})
    assert "fairness_excess" not in never and "clients_in_sum" not in never
    everybody = measures(whole | {"mean_cardinality": 40.0, "fairness_gap": 0.0})
    assert everybody["fairness_excess"] == 0
