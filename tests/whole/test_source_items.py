"""Definitions, equations and remarks of the sources: by brute force, apart from the code that computes them."""

import csv
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from simfl.core.rng import Streams
from simfl.privacy.multiround.participation_matrix import strong_guarantee
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.sessions import Cohort

HERE = Path(__file__).resolve().parents[2]
RUN = """
name: few
clients: 12
devices: {availability: {name: bernoulli, dropout: [.1, .2, .3, .4, .5, .1, .2, .3, .4, .5, .1, .2]}}
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedavg, rounds: 80}
learning: none
"""


def rows_of(folder):
    """The participation matrix of a run, of its table's cells."""
    with open(folder / "participation.csv", newline="") as file:
        return list(csv.DictReader(file))


def matrix_of(folder, rounds=80, clients=12):
    matrix = np.zeros((rounds, clients))
    for row in rows_of(folder):
        matrix[int(row["round"]), int(row["client"])] = float(row.get("weight") or 1) > 0
    return matrix


@pytest.fixture
def batches(tmp_path):
    return run(Scenario.parse(RUN, "few"), tmp_path).path


def test_equations_6_and_7_are_the_columns_of_a_run(batches):
    """The gap and the cardinality after every round, of who took part: shares of all rounds, skipped too."""
    matrix = matrix_of(batches)
    with open(batches / "rounds.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert 0 < (matrix.sum(axis=1) == 0).sum() < 80, "some rounds are skipped, not all"
    for t, row in enumerate(table):
        shares = matrix[: t + 1].mean(axis=0)
        assert float(row["fairness_gap"]) == pytest.approx(shares.max() - shares.min(), abs=1e-6)
        assert float(row["mean_cardinality"]) == pytest.approx(matrix[: t + 1].sum() / (t + 1), abs=1e-6)


def classes_of(matrix):
    """The least number of clients that a generic combination of all rows gives one non-zero weight."""
    combined = np.random.default_rng(0).random(len(matrix)) @ matrix
    return min(Counter(np.round(combined[combined != 0], 9)).values())


def test_remark_3_models_that_change_every_round_leave_k(batches):
    """Equation 5 of a matrix whose unknowns are the models of each round: a class is a round's clients."""
    matrix = matrix_of(batches)
    matrix = matrix[matrix.any(axis=1)]
    apart = np.zeros((len(matrix), matrix.size))
    for t, row in enumerate(matrix):
        apart[t, 12 * t : 12 * (t + 1)] = row
    assert classes_of(matrix) == 2 and classes_of(apart) == 4
    rng = np.random.default_rng(1)
    loose = np.array([np.isin(np.arange(12), rng.choice(12, 4, replace=False)) for _ in range(40)], dtype=float)
    blocks = np.kron(np.eye(40), np.ones(12)) * np.tile(loose, 40).reshape(40, -1)
    assert classes_of(loose) == 1 and classes_of(blocks) == 4, "random selection, too: only models that stay tell"


def test_remark_7_no_function_of_the_sums_tells_members_of_a_batch_apart(batches):
    """Two sets of models with the same batch sums give the same sums in every round, hence the same of any function."""
    matrix, rng = matrix_of(batches), np.random.default_rng(2)
    used = matrix[:, matrix.any(axis=0)]
    pairs = [(i, j) for i, j in combinations(range(used.shape[1]), 2) if (used[:, i] == used[:, j]).all()]
    assert len(pairs) == 6, "six batches of two"
    models = rng.integers(-1000, 1000, (12, 5))
    others = models.copy()
    for i, j in pairs:
        moved = rng.integers(1, 100, 5)
        others[i] += moved
        others[j] -= moved
    assert (matrix @ models == matrix @ others).all() and (models != others).all()


def test_remark_7_needs_models_that_may_be_anything():
    """Of models on a grid from 0 to 3 a batch sum of 0 or 6 has one solution: the sum tells both members."""
    solutions = Counter(a + b for a in range(4) for b in range(4))
    assert [total for total, count in solutions.items() if count == 1] == [0, 6]


def test_equation_15_is_unbiased_and_within_a_quarter_of_a_squared_step():
    """Ten ages, s = 1 / (1 + age), c_g = 64, 4,000 draws: mean, 1 / (4 c^2), and the two nearest numbers only."""
    protocol = PROTOCOLS.of({"name": "basecagg", "staleness_scale": 64})
    ages, draws = np.arange(11), 4000
    row = (1 / (1 + ages))[:, None]
    cohorts = [Cohort(n, np.arange(11, dtype=np.int32)[:, None], 1, 11, 1.0, row=row) for n in range(draws)]
    factors = np.array([protocol._factors(each, Streams(0)).ravel() for each in cohorts]) / 64
    exact = row.ravel()
    assert (np.abs(factors.mean(axis=0) - exact) <= 4 * factors.std(axis=0) / np.sqrt(draws) + 1e-12).all()
    assert (factors.var(axis=0) <= 1 / (4 * 64**2) + 1e-9).all()
    for column, value in zip(factors.T, exact, strict=True):
        assert set(np.unique(column * 64)) <= {np.floor(64 * value), np.floor(64 * value) + 1}


def test_definition_2_of_one_laplace_variable():
    """The mean error of the non-oblivious case, scale / (|W| + 1), by a grid."""
    scale, total = 0.7, 3.0
    x = np.linspace(-60, 60, 2_000_001)
    density = np.exp(-np.abs(x) / scale) / (2 * scale)
    assert np.trapezoid(np.abs(x) / (total + 1) * density, x) == pytest.approx(scale / (total + 1), rel=1e-6)


def test_the_page_on_oblivious_noise_has_the_squared_errors_of_the_table():
    runs = pandas.read_csv(HERE / "results" / "oblivious" / "squared_error.csv")
    page = (HERE / "docs" / "papers" / "oblivious.md").read_text()
    half = stats.t.ppf(0.975, len(runs) - 1) * runs.relative_loss.sem()
    assert f"({runs.relative_loss.mean() / 1e-5:.1f} ± {half / 1e-5:.1f})e-5" in page
    np.testing.assert_allclose(runs.error_noisy / runs.error_clear - 1, runs.relative_loss, atol=2e-5)


def test_a_sum_of_masks_modulo_p_is_as_likely_for_every_model():
    """A.13.1 in a field of seven, three clients: what the server sees of one client, whatever that client's input."""
    seen = [Counter((w + r + s) % 7 for r in range(7) for s in range(7)) for w in range(7)]
    assert all(counts == dict.fromkeys(range(7), 7) for counts in seen)
    integers = Counter(r + s for r in range(7) for s in range(7))
    assert len(set(integers.values())) > 1, "without the modulus the sum would not be uniform"


def test_the_strong_guarantee_is_that_of_equation_5(batches):
    assert strong_guarantee(matrix_of(batches)) == classes_of(matrix_of(batches)) == 2
