"""What rows of the privacy metrics hold: nothing hides from who needs every update; samples are part of it if asked."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

from simfl.api.result_objects import Result
from simfl.cli import simfl
from simfl.core.rng import Streams
from simfl.core.types import SERVER, Job, JobId
from simfl.privacy.accountant import History
from simfl.privacy.base import COLUMNS
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.stages.central_gaussian import AdaptiveGaussian
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.privacy.multiround.matrix_metrics import multi_round
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.theory.expected_cardinality import theory

SCENARIO = """
clients: 12
devices: {availability: {name: bernoulli, dropout: 0.2}, computation: 1}
selection: {name: batch_partition, k: 4, T: 4}
training: {name: fedavg, rounds: 4, weighting: equal, skipped_round_s: 0}
learning: {data: {name: synthetic, samples: 120, test_samples: 20}, model: logistic}
"""
NAMES = [column.name for column in COLUMNS]


def play(tmp_path, *overrides):
    scenario = Scenario.parse(SCENARIO, "single", list(overrides))
    return scenario, Result.open(run(scenario, tmp_path).path)


@pytest.mark.parametrize("aggregate", ["median", "trimmed_mean", "masked"])
@pytest.mark.parametrize("rule", ["fedavg", "fedbuff"])
def test_who_needs_single_updates_sees_them(tmp_path, aggregate, rule):
    change = [] if rule == "fedavg" else ["training={name: fedbuff, rounds: 4, weighting: equal}"]
    scenario, hidden = play(tmp_path / "mean", *change)
    assert hidden.summary["privacy_strong"] == 4 and theory(scenario)["guarantee"]["strong"] == 4
    scenario, seen = play(tmp_path / "seen", *change, f"training.aggregate={aggregate}")
    assert scenario.training.aggregate.name == aggregate
    assert all(seen.summary[name] == 1 for name in NAMES)
    assert theory(scenario)["guarantee"] == {"strong": 1, "semi_strong": 1, "weak": 1}
    assert [seen.summary[f"guarantee_{name}"] for name in ("strong", "semi_strong", "weak")] == [1, 1, 1]
    first = int(np.argmax(seen.rounds.skipped == 0))
    assert seen.rounds[NAMES].iloc[:first].isna().all(axis=None) and (seen.rounds[NAMES].iloc[first:] == 1).all(
        axis=None
    )


HALF = "compression={name: random_k, share: 0.5}"


@pytest.mark.parametrize(
    "changes, clipped_anew",
    [
        ((), False),
        (("privacy.stages=[central_gaussian]",), False),
        (("privacy.stages=[{name: adaptive_gaussian, bit_std: 9}]",), True),
        (
            (
                "privacy.stages=[clipping, {name: adaptive_gaussian, bit_std: 9}]",
                "selection={name: guarded, T: 4, inner: {name: batch_partition, k: 4, T: 4}}",
            ),
            True,
        ),
        ((HALF,), False),
        ((HALF, "privacy.stages=[clipping]"), False),
        ((HALF, "privacy.stages=[local_gaussian]"), False),
        ((HALF, "privacy.stages=[central_gaussian]"), True),
        ((HALF, "privacy.stages=[central_gaussian]", "secagg=secagg"), True),
        ((HALF, "privacy.stages=[laplace_shares]"), True),
        (("compression={name: random_k, share: 1}", "privacy.stages=[central_gaussian]"), False),
    ],
)
def test_who_always_take_part_together_hide_while_an_update_that_stays_is_clipped_alike(
    tmp_path, changes, clipped_anew
):
    scenario, seen = play(tmp_path, *changes)
    *certain, upper = (seen.summary[name] for name in NAMES)
    assert certain == [1 if clipped_anew else 4] * 3 and upper == 4
    promised = theory(scenario)["guarantee"]
    assert promised is not None and set(promised.values()) == {1 if clipped_anew else 4}
    shown = CliRunner().invoke(simfl, ["audit", str(seen.path)])
    assert shown.exit_code == (2 if clipped_anew else 0)
    assert ("how updates that stay change from sum to sum" in shown.output) == clipped_anew


def test_two_sums_of_moving_norms_tell_a_short_update_and_a_long_one_apart():
    """A short update and a long one, as the stage sends them at the norms 1 and 2, which the server knows."""
    stage, short, long = AdaptiveGaussian(bit_std=9.0), np.float32([[0.3, 0.2]]), np.float32([[3.0, 4.0]])
    state = {"since": np.array([0, 1]), "norm": np.array([1.0, 2.0])}
    sums = []
    for version in (0, 1):
        jobs = tuple(Job(JobId.of(version, client), client, version, 0.0) for client in (0, 1))
        sums.append(stage.client(np.concatenate([short, long]), jobs, state, Streams(0))[:, :2].sum(axis=0))
    direction = sums[1] - sums[0]
    assert sums[0] - direction == pytest.approx(short[0], abs=1e-5) and direction == pytest.approx([0.6, 0.8], abs=1e-5)


def test_random_coordinates_clipped_anew_tell_apart_who_sum_up_half_of_them_alike():
    """By the rank of the sums' derivative: which coordinates of the short update remain free if the sums are known."""
    rng, d, rounds = np.random.default_rng(0), 8, 12
    truth = np.concatenate([rng.normal(size=d) * 0.05, rng.normal(size=d) * 2])
    parts = [np.sort(rng.choice(d, d // 2, replace=False)) for _ in range(rounds)]

    def sums(both, norm):
        sent = [[one[part] * 2 for one in np.split(both, 2)] for part in parts]
        return np.concatenate([sum(v * min(1, norm / np.linalg.norm(v)) for v in round) for round in sent])

    for norm, free in ((np.inf, True), (1.0, False)):
        steps = 1e-6 * np.eye(2 * d)
        slopes = np.stack([(sums(truth + e, norm) - sums(truth - e, norm)) / 2e-6 for e in steps], axis=1)
        _, singular, right = np.linalg.svd(slopes)
        kernel = right[np.count_nonzero(singular > 1e-6 * singular[0]) :]
        assert (np.linalg.norm(kernel[:, :d]) > 1e-3) == free


def test_from_the_first_aggregate_on_where_it_is_due():
    sums = ObserverView.of_sums(csr_array(np.vstack([np.zeros((1, 4)), np.ones((5, 4))])))
    found = Guarantees(every=2).accounts(History({SERVER: replace(sums, opaque=("each update",))}))
    assert found["privacy_strong"] == [None, 1, 1, 1, 1, 1]
    for name in NAMES[1:]:
        assert found[name] == [None, 1, None, 1, None, 1]


def test_rows_of_weights_hold_the_samples():
    rows = csr_array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    samples = np.array([1000, 1, 7])
    history = History({SERVER: ObserverView.of_sums(rows)}, samples=samples)
    units, weights = (Guarantees(rows=kind).accounts(history) for kind in ("units", "weights"))
    assert units["privacy_semi_strong"] == [2.0, 1.0]
    assert weights["privacy_semi_strong"][0] == pytest.approx(1.001, abs=1e-9)
    assert weights["privacy_strong"] == [1, 1] and units["privacy_strong"] == [2, 1]
    alike = Guarantees(rows="weights").accounts(
        History({SERVER: ObserverView.of_sums(rows)})
    )  # no samples weigh anything
    assert alike == units


@pytest.mark.parametrize("selection", ["{name: batch_partition, k: 2, T: 2}",
                                       "{name: guarded, inner: {name: random, k: 2}, T: 2, notion: weak}"])  # fmt: skip
def test_no_weights_where_a_clients_number_of_samples_changes(selection):
    """Sums 5 a + 10 b and 15 a + 20 b of one batch show both updates; with one number a client they would hide both."""
    exposed = multi_round(np.array([[5.0, 10.0, 0.0, 0.0], [15.0, 20.0, 0.0, 0.0]]))
    assert (exposed.strong, exposed.semi_strong, exposed.weak_upper) == (1, 1.0, 1)

    def problems(partition, weighting="samples", rows="weights"):
        text = f"""
clients: 4
selection: {selection}
training: {{name: fedavg, rounds: 4, weighting: {weighting}}}
learning: {{data: digits, model: logistic, partition: {partition}}}
privacy: {{rows: {rows}}}
"""
        try:
            return Scenario.parse(text, "grows", []) and []
        except InvalidScenario as refused:
            return [str(problem) for problem in refused.problems]

    grows = "{name: growing, first: [5, 10, 5, 10], new: 10, versions: 3}"
    (one,) = problems(grows)
    assert "privacy.rows: is weights, but the clients' numbers of samples change" in one
    assert not problems(grows, "equal") and not problems(grows, rows="units") and not problems("{name: quantity}")
    assert not problems("{name: growing, first: 10}") and not problems("{name: resampled, samples: 5}")
    newest = "{{name: growing, first: {}, new: 10, versions: 3, cumulative: false}}"
    assert not problems(newest.format(10)) and problems(newest.format(9)) and problems(newest.format([10, 9, 10, 10]))


def test_theory_promises_no_more_of_weights_than_they_keep(tmp_path):
    """It said strong and semi-strong 2 of batches whose rows of samples had 1 and less than 2."""
    scenario, seen = play(
        tmp_path, "learning.partition=quantity", "training.weighting=samples", "privacy.rows=weights",
        "selection={name: batch_partition, k: 4, T: 2}", "training.rounds=12",
    )  # fmt: skip
    samples = build(scenario).learner.samples
    assert samples.min() > 0
    assert theory(scenario, samples)["guarantee"] == {"strong": None, "semi_strong": None, "weak": 2}
    assert seen.summary["privacy_semi_strong"] < 2 and seen.summary["privacy_strong"] == 1
    assert seen.summary["privacy_weak_lower"] >= seen.summary["guarantee_weak"] == 2
    equal = Scenario.parse(SCENARIO, "equal", ["privacy.rows=weights"])
    assert theory(equal)["guarantee"] == {"strong": 4, "semi_strong": 4, "weak": 4}


@pytest.mark.parametrize("weighting", ["samples", "equal"])
@pytest.mark.parametrize("rule", ["fedavg", "{name: fedbuff, staleness: polynomial}"])
def test_a_run_with_rows_of_weights(tmp_path, weighting, rule):
    _, found = play(
        tmp_path, f"training={rule}", "training.rounds=12", f"training.weighting={weighting}",
        "learning.partition=quantity", "privacy.rows=weights", "selection={name: random, k: 3}",
    )  # fmt: skip
    clients = np.loadtxt(found.path / "clients.csv", delimiter=",", skiprows=1, usecols=2).astype(int)
    assert len(set(clients.tolist())) > 3
    P = with_samples(found.participation, clients) if weighting == "samples" else found.participation
    expected = multi_round(P[:3], doubles=True)
    assert found.rounds.privacy_strong[2] == expected.strong
    assert found.rounds.privacy_weak_upper[2] == expected.weak_upper
    if expected.semi_strong is not None:
        assert found.rounds.privacy_semi_strong[2] == pytest.approx(expected.semi_strong, abs=1e-6)
