"""Cardinality and fairness against their definitions on the whole participation matrix."""

import numpy as np

from simfl.metrics import Tally


def test_running_metrics_equal_the_definitions():
    rng = np.random.default_rng(0)
    matrix = rng.random((30, 9)) < 0.4
    matrix[4] = False
    tally = Tally(9)
    for t, row in enumerate(matrix):
        tally.add(np.flatnonzero(row))
        so_far = matrix[: t + 1]
        shares = so_far.mean(axis=0)
        assert tally.mean_cardinality == so_far.sum() / (t + 1)
        assert np.isclose(tally.fairness_gap, shares.max() - shares.min())
    np.testing.assert_array_equal(tally.participation, matrix.sum(axis=0))
