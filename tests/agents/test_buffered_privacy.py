"""Does a multi-round guarantee survive asynchronous training? What keeps it, and what loses it."""

from pathlib import Path

import numpy as np
import pytest

from simfl.api.result_objects import Result
from simfl.runs.run import run
from simfl.scenario import Scenario

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "fedbuff_privacy.yaml"
SMALL = ["clients=36", "training.concurrency=18", "training.buffer=6", "training.rounds=150"]


@pytest.mark.parametrize(
    "selection, strong, weak",
    [
        ("batch_partition:k=6,T=3", 3, 3),
        ("half_partition:k=4,T=2", 1, 2),
        ("partition:k=6", 6, 6),
        ("random:k=6", 1, 1),
    ],
)
@pytest.mark.parametrize(
    "overrides, kept",
    [
        ([], True),
        (["training.staleness=hinge:a=1,b=1"], True),
        (["training.max_staleness=2"], True),
        (["training.arrivals=uniform_staleness:max=10"], True),
        (["training.unit_weights=own", "training.staleness=constant"], True),
        (["training.unit_weights=own"], False),
        (["training.partial=true"], False),
    ],
    ids=["common", "hinge", "discard", "drawn", "own, constant", "own", "partial"],
)
def test_whole_units_of_one_weight_keep_their_guarantee(tmp_path, selection, strong, weak, overrides, kept):
    scenario = Scenario.load(SCENARIO, [*SMALL, f"selection={selection}", *overrides])
    result = Result.open(run(scenario, tmp_path).path)
    found = result.summary
    if kept:
        assert (found["privacy_strong"], found["privacy_weak_lower"]) == (strong, weak)
        assert found["privacy_semi_strong"] >= weak - 1e-9
    else:
        assert (found["privacy_strong"], found["privacy_weak_upper"], found["privacy_semi_strong"]) == (1, 1, 1)
    rank = np.linalg.matrix_rank(result.participation.toarray())
    units = {3: 36 // 3, 2: 36 - 1, 6: 36 // 6, 1: 36}[weak]
    assert rank == (units if kept else 36)
