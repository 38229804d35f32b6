"""Whole simulated runs against theory: the cardinality of every policy, and the guarantees of the structured ones."""

import numpy as np
import pytest

from simfl.api.result_objects import Result
from simfl.runs.run import run
from simfl.scenario import Scenario

SCENARIO = """
clients: 24
devices: {availability: {name: bernoulli, dropout: {choices: [0.1, 0.2, 0.3, 0.4, 0.5]}}}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 400}
learning: none
privacy: {every: 0}
"""


@pytest.mark.parametrize(
    "policy",
    ["all", "random", "bernoulli", "weighted", "partition", "batch_partition:T=2", "batch_partition:T=4",
     "half_partition:T=2", "half_partition:T=4"],
)  # fmt: skip
def test_a_long_run_agrees_with_theory(tmp_path, policy):
    result = Result.open(run(Scenario.parse(SCENARIO, "theory", [f"selection={policy}"]), tmp_path).path)
    cardinality = result.rounds.cardinality.to_numpy()
    expected = result.summary["expected_cardinality"]
    spread = cardinality.std() if policy in ("all", "bernoulli") else np.sqrt(expected * (8 - expected))
    assert abs(cardinality.mean() - expected) <= 4 * spread / np.sqrt(len(cardinality))
    kept = [result.summary[f"privacy_{name}"] for name in ("strong", "semi_strong", "weak_lower", "weak_upper")]
    name, _, size = policy.partition(":T=")
    if name in ("partition", "batch_partition"):
        assert kept == [float(size or 8)] * 4
    elif name == "half_partition":
        assert kept == [int(size) / 2, *[float(size)] * 3]
    else:
        assert kept == [1] * 4
