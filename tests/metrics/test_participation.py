"""Cardinality and fairness against their definitions on the whole participation matrix."""

import numpy as np

from simfl.metrics.participation import Tally, concurrency, mean_concurrency, staleness_histogram


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


def test_concurrency_of_three_jobs():
    """[0, 4), [1, 3), [3, 5): one job ends as the next begins; an instantaneous one changes nothing."""
    started, ended = np.array([0.0, 1.0, 3.0, 2.0]), np.array([4.0, 3.0, 5.0, 2.0])
    times, at_work = concurrency(started, ended)
    assert times.tolist() == [0, 1, 2, 3, 4, 5]
    assert at_work.tolist() == [1, 2, 2, 2, 1, 0]
    assert mean_concurrency(ended - started, 5.0) == (4 + 2 + 2) / 5
    assert np.sum(at_work[:-1] * np.diff(times)) / 5 == (4 + 2 + 2) / 5
    assert mean_concurrency(ended - started, 0.0) is None


def test_histogram():
    assert staleness_histogram({0: 1, 3: 2, 1: 1}) == [1, 1, 0, 2]
    assert staleness_histogram({}) == []
