"""The theorems of the papers that need no training: results/theorems, recomputed and held against formulas."""

import itertools
import sys
from math import comb
from pathlib import Path

import numpy as np
import pandas
import pytest

from simfl.core.registration.family_index import undone
from simfl.core.rng import Streams
from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2] / "results" / "theorems"


@pytest.fixture
def script(monkeypatch):
    with undone():
        yield lambda name: imported(HERE / f"{name}.py", monkeypatch)


def table(name):
    return pandas.read_csv(HERE / f"{name}.csv")


def test_ranks_are_those_of_linear_algebra(script):
    full_rank, rng = script("full_rank"), np.random.default_rng(0)
    matrices = rng.integers(0, 2, (200, 7, 5))
    expected = [[np.linalg.matrix_rank(one[: t + 1]) for t in range(7)] for one in matrices]
    np.testing.assert_array_equal(full_rank.ranks(matrices), expected)
    every = np.array(list(itertools.product((0, 1), repeat=9))).reshape(-1, 3, 3)
    assert (full_rank.ranks(every)[:, -1] == 3).sum() == 174, "OEIS A055165: non-singular 3 x 3 matrices of 0 and 1"


def test_theorem_3_of_paper_001(script):
    """A small row again, to the last digit; and the lower bound of equation 32 is one, wherever it says something."""
    full_rank, stored = script("full_rank"), table("full_rank")
    again = pandas.DataFrame([full_rank.row(scheme, 10, 2, 1000) for scheme in full_rank.SCHEMES])
    issued = stored[stored.clients == 10].reset_index(drop=True)
    pandas.testing.assert_frame_equal(again.round(5), issued.round(5), rtol=1e-4)
    assert list(zip(stored.clients, stored.k, strict=True)) == [*full_rank.SIZES] * 2
    for row in stored.itertuples():
        assert (
            row.bound == pytest.approx(full_rank.full_rank_probability(row.clients, row.k), rel=1e-4)
            and row.bound <= row.high
        )
    nobody_alone = 1 - 120 * 0.9**120  # some client is in no round: the least that can go wrong
    assert stored.query("clients == 120 and k == 12").low.max() < nobody_alone < 1


def test_no_family_has_more_sets_than_batches(script):
    """Appendix C, recomputed for up to seven clients, and equation 5 by its definition."""
    necessity, stored = script("necessity"), table("necessity")
    again = pandas.DataFrame(necessity.rows(7)).astype({"families": "Int64"})
    issued = stored[stored.clients <= 7].astype({"families": "Int64"})
    pandas.testing.assert_frame_equal(again, issued, check_dtype=False)
    assert (stored.structures == stored.bound).all() and stored.clients.max() == 12
    assert (stored.families.dropna() == stored.bound[stored.families.notna()]).all() and stored.families.count() > 30
    assert stored.bound.equals(stored.apply(lambda row: comb(row.clients // row["T"], row.k // row["T"]), axis=1))
    assert necessity.largest_structure(8, 4, 3) == 2  # T does not divide: two classes of four


def test_identical_columns_are_what_equation_5_asks_for():
    """For every family of pairs of four clients: classes of equal entries of a generic combination, and of columns."""
    rng, pairs = np.random.default_rng(1), list(itertools.combinations(range(4), 2))
    for bits in range(1, 64):
        rows = np.array([[i in pair for i in range(4)] for s, pair in enumerate(pairs) if bits >> s & 1], dtype=float)
        values = rng.random(len(rows)) @ rows
        sizes = [np.isclose(values, value).sum() for value in values if value]
        alike = [(rows == column[:, None]).all(axis=0).sum() for column in rows.T if column.any()]
        assert min(sizes) == min(alike)


def test_masks_of_different_rounds_do_not_cancel(script):
    masks, stored = script("masks"), table("masks")
    streams = Streams(0)
    size = (masks.CLIENTS, masks.LENGTH)
    vectors = streams("theorems/vectors").integers(-masks.LARGEST, masks.LARGEST + 1, size)
    row = masks.row(1, 10, vectors, streams)
    issued = stored.query("stale == 1 and late == 10").iloc[0]
    assert row == pytest.approx(issued.to_dict(), rel=1e-2)
    alike = stored.stale.isin([0, masks.CLIENTS])
    assert (stored[alike].wrong == 0).all() and (stored[~alike].wrong == 1).all()
    assert (stored[~alike].uniform_p > 1e-3).all() and (stored[alike].uniform_p < 1e-3).all()


def test_sums_in_rounds_that_may_be_skipped(script):
    """Corollary 1 of Appendix H, and that its first bound is reached."""
    dropouts, stored = script("dropouts"), table("dropouts")
    limit = stored.measured - 4 * stored.standard_error
    assert (limit <= stored.equation_52).all() and (limit <= stored.equation_53.fillna(np.inf)).all()
    same = stored[stored.errors == "identical"]
    assert ((same.measured - same.equation_52).abs() < 4 * same.standard_error).all()
    assert (stored.cardinality - stored.expected_cardinality).abs().max() < 4 * 12 * np.sqrt(0.02 / stored.rounds[0])
    zero = dropouts.bounds(6.0, np.zeros((12, 3)))
    assert zero == (12 * 6, 2 * 6)


def test_theorem_1_of_paper_003(script):
    """The task's constants by a fine grid, the bounds again, and every run below the one that covers updates."""
    quantised, stored = script("quantised"), table("quantised")
    wells = sys.modules["wells"]
    u = np.linspace(-30, 30, 2_000_001)
    slope = wells.slope(u)
    assert np.abs(np.diff(slope) / np.diff(u)).max() <= wells.SMOOTHNESS
    assert 0.999 * wells.STEEPEST < np.square(slope).max() <= wells.STEEPEST
    np.testing.assert_allclose(np.gradient(u**2 / (1 + u**2), u)[1:-1], slope[1:-1], atol=1e-4)
    for row in stored.itertuples():
        exponent = None if np.isnan(row.exponent) else int(row.exponent)
        for of_updates, issued in ((False, row.bound_gradients), (True, row.bound_updates)):
            bounds = [quantised.bound(seed, row.rounds, exponent, of_updates) for seed in range(row.seeds)]
            assert np.mean(bounds) == pytest.approx(issued, rel=1e-4)
        assert row.measured + row.half_interval < row.bound_updates
    fine = stored.set_index("exponent").measured
    assert abs(fine[16] / stored.measured[0] - 1) < 0.01 < fine[2] / stored.measured[0] - 1


def shares_by_hand(availability, k, rounds, rng):
    """Shares of rounds of batches that the paper's text selects: a least-used available one, the others uniformly."""
    used = np.zeros(len(availability), dtype=int)
    for _ in range(rounds):
        there = np.flatnonzero(rng.random(len(availability)) < availability)
        if len(there) >= k:
            least = rng.choice(there[used[there] == used[there].min()])
            used[rng.choice(there[there != least], k - 1, replace=False)] += 1
            used[least] += 1
    return used / rounds


def test_the_fairness_gap_stays_above_its_bound(script):
    """Theorem 1 and Remark 4: the bounds by enumeration of all sets of available batches, and another simulation."""
    fairness, stored = script("fairness"), table("fairness")
    availability, k = np.array([0.2, 0.3, 0.9, 0.95, 1.0, 1.0]), 3
    played, most, uniform = 0.0, {"fair": np.zeros(6), "least_total": np.zeros(6)}, np.zeros(6)
    for pattern in itertools.product((False, True), repeat=6):
        there = np.array(pattern)
        weight = np.where(there, availability, 1 - availability).prod()
        if there.sum() < k:
            continue
        played += weight
        uniform += weight * there * k / there.sum()
        for least in range(1, 6):
            rows = [set(row) for row in itertools.combinations(np.flatnonzero(there), k)]
            hits = [len(row & set(range(least))) for row in rows]
            most["least_total"][least] += weight * max(hits)
            of_first = [
                np.mean([h for row, h in zip(rows, hits, strict=True) if b in row]) for b in np.flatnonzero(there)
            ]
            most["fair"][least] += weight * max(of_first)
    for rule, upper in most.items():
        gaps = [(k * played - upper[low]) / (6 - low) - upper[low] / low for low in range(1, 6)]
        assert fairness.proven_gap(rule, availability, k) == pytest.approx(max(0, *gaps))
    assert fairness.uniform_shares(availability, k) == pytest.approx(uniform)
    long = shares_by_hand(availability, k, 20_000, np.random.default_rng(0))
    assert np.ptp(long) > fairness.proven_gap("fair", availability, k) - 0.01 > 0.2
    late, bound = stored.gap_30000, stored.proven_gap
    assert (late > bound - 0.01).all() and len(stored) == 90
    some = stored[(stored.rule == "fair") & (stored.dropouts == "unequal")]
    assert (some.proven_gap > 0.02).all()
    for row in stored.itertuples():
        there = (1 - fairness.dropouts(row.dropouts, row.seed)).reshape(-1, row.T).prod(axis=1)
        assert fairness.proven_gap(row.rule, there, 12 // row.T) == pytest.approx(row.proven_gap, rel=1e-3, abs=1e-9)


def test_the_page_has_the_fairness_gaps_of_the_table():
    """results/theorems/README.md, by rule for unequal dropout: after 1,000 and 30,000 rounds, and the limit's bound."""
    page = (HERE.parents[1] / "results" / "theorems" / "README.md").read_text()
    found = table("fairness").groupby(["rule", "dropouts", "T"])[["gap_1000", "gap_30000", "proven_gap"]].mean()
    for (rule, kind, size), row in found.query("dropouts == 'unequal'").iterrows():
        numbers = " | ".join(f"{value:.4f}" for value in row)
        assert f"| {fairness_name(rule)} | {kind} | {size} | {numbers} |" in page


def fairness_name(rule):
    return {"fair": "text", "least_total": "authors' code", "uniform": "uniform"}[rule]
