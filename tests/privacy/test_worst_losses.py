"""Losses of stages that say little, or more than one thing: what is not known of a round costs all of it."""

import json
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm

from simfl.api.theory import central_noise
from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.certify.chain import Beside, bound_at
from simfl.privacy.certify.maps import Clip, Noise, Scale
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.accountants.zero_out import ZeroOut
from simfl.privacy.dp.losses import epsilon_timeline
from simfl.privacy.dp.stages.central_gaussian import AdaptiveGaussian, CentralGaussian, Clipping
from simfl.privacy.stage import Loss, Stage
from simfl.scenario import Scenario

DELTA = 1e-5
ROUNDS = csr_array([[1.0, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]])


def delta_of(epsilon, mu):
    """Of a Gaussian mechanism, Balle and Wang 2018, Theorem 8."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@dataclass(frozen=True)
class OfItsOwn(Stage):
    """Noise that says which loss it has of an update within the bound, in the rounds of which it says anything."""

    where: str = "server"
    pure: bool = False

    maps = (Clip(1.0), Clip(1.0, 1))

    @property
    def adds_noise(self):
        return Noise(self.where, gaussian=not self.pure)

    def loss(self, facts, bound):
        return Loss(**{"pure" if self.pure else "mu": bound.l1 / facts["scale"]})


@dataclass(frozen=True)
class Unscaled(Stage):
    """Clients send a hundredth, which the server takes a hundredfold."""

    maps = (Scale(0.01),)

    def server(self, vector, members, state, streams):
        return 100 * vector, state


def last(stage, scale, rounds=ROUNDS, **seen):
    facts = {"scale": np.array(scale, dtype=float)}
    history = History({SERVER: ObserverView.of_sums(rounds)}, (facts,), stages=(stage,), **seen)
    return epsilon_timeline(history, DELTA).last.tolist()


def test_losses_that_are_infinite_more_than_once_are_infinite():
    stage, facts = CentralGaussian(noise_multiplier=0.0), {"rounding": np.zeros(3), "std": np.zeros(3)}
    history = History({SERVER: ObserverView.of_sums(ROUNDS)}, (facts,), stages=(stage,))
    assert epsilon_timeline(history, DELTA).last.tolist() == [inf, inf, inf, 0]
    assert ZeroOut().accounts(history)["epsilon_median"] == [None] * 3  # of four numbers, the mean of the middle ones


@pytest.mark.parametrize("where", ["client", "share", "server"])
@pytest.mark.parametrize("pure", [False, True])
def test_a_round_of_which_a_stage_says_nothing_is_without_noise(where, pure):
    assert last(OfItsOwn(where, pure), [np.nan, 1, 1]) == [
        inf,
        inf,
        pytest.approx(last(OfItsOwn(where, pure), [1] * 3)[2]),
        0,
    ]


def test_noise_of_the_server_covers_an_update_the_less_the_more_it_counts():
    samples = np.array([3, 5, 7, 9])
    assert last(OfItsOwn(pure=True), [1] * 3, samples=samples) == pytest.approx([9, 10, 7, 0])
    found = last(OfItsOwn(), [4] * 3, samples=samples)
    mus = np.array([3 * sqrt(3), 5 * sqrt(2), 7]) / 4
    assert [delta_of(epsilon, mu) for epsilon, mu in zip(found, mus, strict=False)] == pytest.approx([DELTA] * 3)


def test_shares_of_noise_cover_only_updates_that_count_the_same():
    assert last(OfItsOwn("share"), [1] * 3, samples=np.array([3, 5, 3, 9])) == [
        inf,
        inf,
        pytest.approx(4.377, abs=1e-3),
        0,
    ]


def test_what_a_later_stage_does_to_the_sum_is_not_known():
    assert bound_at((CentralGaussian(), Unscaled()), 0, [{}, {}], Beside()).l2 == inf
    assert bound_at((Unscaled(), CentralGaussian()), 1, [{}, {}], Beside()).l2 == 1.0


def test_a_clip_of_the_update_and_its_bit_does_not_narrow_the_bit():
    stages = (AdaptiveGaussian(initial_norm=10.0, bit_std=0.6), Clipping(0.5))
    bound, facts = (
        bound_at(stages, 0, [{"sensitivity": 10.0}, {}], Beside()),
        {"sensitivity": np.array([10.0]), "std": np.array([10.0])},
    )
    assert (
        stages[0].loss(facts, bound).mu >= 0.5 / 0.6
    )  # a short update: (0, 1/2), of norm 1/2, and noise 0.6 on the bit


@pytest.mark.parametrize("norm, noise", [(None, 1.0), (0.5, 0.5), (2.0, 1.0)])
def test_the_noise_that_theory_asks_for_is_of_updates_as_the_stages_leave_them(norm, noise):
    stages = [{"name": "central_gaussian"}, *([] if norm is None else [{"name": "clipping", "norm": norm}])]
    scenario = Scenario.parse(json.dumps({
        "clients": 6, "selection": {"name": "random", "k": 3}, "privacy": {"stages": stages}, "learning": "none",
        "training": {"name": "fedavg", "rounds": 3, "weighting": "equal"}}))  # fmt: skip
    needed = central_noise(scenario, 8.385420, DELTA, None, None)["noise_always"]
    assert delta_of(8.385420, sqrt(3)) == pytest.approx(DELTA, rel=1e-4)
    assert needed == pytest.approx(noise, rel=1e-4)
