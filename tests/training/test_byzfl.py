"""simfl's aggregates and attacks against those of ByzFL, as results/attackers/byzfl_vectors.py has played them.

Where definitions differ the parameters are those that make both say the same: ByzFL's Krum takes one neighbour more
than the paper's n - f - 2, so that its f is one more than simfl's; its sign flip and its ALIE are of the honest mean,
and its deviations divide by n - 1. It has no min-max and no Bulyan.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from simfl.clients.client_agents import CLIENT_AGENTS, AttackView
from simfl.training.aggregates import AGGREGATES, BesideUpdates

STORED = Path(__file__).resolve().parents[2] / "results" / "attackers" / "byzfl_vectors.csv"
N, D = 11, 5
AGGREGATED = {
    "median": {}, "trimmed_mean": {"trim": 2 / N}, "krum": {"f": 2}, "multi_krum": {"f": 2, "m": 8},
    "geometric_median": {"smoothing": 1e-6, "iterations": 10_000},
    "centred_clipping": {"radius": 0.5, "iterations": 3},
}  # fmt: skip
SENT = {
    "sign_flip": ("sign_flip", {}), "inner_product": ("inner_product", {"factor": 0.7}),
    "alie": ("alie", {"z": 1.2 * np.sqrt(N / (N - 1))}),
}  # fmt: skip


def stored():
    with open(STORED, newline="") as lines:
        return [
            (row["rule"], int(row["seed"]), [float(row[f"v{i}"]) for i in range(D)]) for row in csv.DictReader(lines)
        ]


def made(name, vectors):
    if name in AGGREGATED:
        rule, ones = AGGREGATES[name](**AGGREGATED[name]), np.ones(N)
        server = BesideUpdates(np.zeros(D, np.float32), np.zeros, np.arange(N), np.random.default_rng)
        more = {"beside": server} if rule.reads_server else {}
        return rule.combine(vectors, ones, float(N), **more)
    agent, fields = SENT[name]
    mean = vectors.mean(axis=0, keepdims=True)
    own, others = (mean, vectors[:0]) if name == "sign_flip" else (vectors, vectors)
    return CLIENT_AGENTS[agent](**fields).sends(AttackView(own, others, N, vectors[0], ()))[0]


@pytest.mark.parametrize(("name", "seed", "wanted"), stored())
def test_both_programs_make_the_same_of_the_same_vectors(name, seed, wanted):
    vectors = np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)
    assert np.allclose(made(name, vectors), wanted, rtol=1e-4, atol=2e-5)


def test_each_rule_is_compared_in_five_draws():
    assert {name: sum(row[0] == name for row in stored()) for name in (*AGGREGATED, *SENT)} == dict.fromkeys(
        (*AGGREGATED, *SENT), 5
    )
