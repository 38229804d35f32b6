"""A million learning clients in bounded memory: what idle clients cost."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parents[2]
MEASURED = """
import json, resource, sys
from pathlib import Path
from simfl.runs.run import run
from simfl.scenario import Scenario
found = run(Scenario.load(sys.argv[1], sys.argv[3:]), Path(sys.argv[2])).summary
print(json.dumps(found | {"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


@pytest.mark.slow
def test_a_million_clients_learn_in_bounded_memory(tmp_path):
    scenario = HERE / "scenarios/million_learning.yaml"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, scenario, tmp_path], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["clients"] == 10**6 and found["rounds"] == 100 and found["test_accuracy"] > 0.8
    assert found["peak_bytes"] < 1.5e9


def test_only_clients_that_have_worked_keep_anything():
    made = Scenario.load(HERE / "scenarios/million_learning.yaml", ["clients=5000", "training.client=scaffold"])
    learner = made.learning.build(made, Streams(made.seed))
    learner.put(0, learner.initial())
    workers = [3, 17, 4999]
    learner.train([Job(client, client, 0, 0.0) for client in workers])
    state = learner.state()
    assert state["holders/variate"].tolist() == workers and state["own/variate"].shape == (3, learner.dimension)
    assert np.abs(state["own/variate"]).sum() > 0
