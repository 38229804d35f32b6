"""Who holds no samples yet is in no sum: neither does such a client hide others, nor are its parts of noise there."""

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.core.types import Job
from simfl.privacy.stage import Members
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from tests.plugins.test_public_interface import rows
from tests.privacy.test_dp_stages import jobs, made

GROWING = """
clients: 8
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 2, weighting: equal, server_learning_rate: 1.0e-6}
learning: {data: digits, model: logistic, partition: {name: growing, first: [0, 0, 0, 0, 50, 50, 50, 50], new: 20, versions: 3}}
secagg: secagg
privacy: {stages: [{name: xnoise, clip_norm: 1.0e-3, noise_multiplier: 4000, tolerance: 5}]}
"""  # noqa: E501
ONE = "learning.partition={name: growing, first: [50, 0, 0, 0, 0, 0, 0, 0], new: 20, versions: 4}"
BUFFERED = "training={name: fedbuff, rounds: 3, weighting: equal, buffer: 8, concurrency: 8}"
DRAWN = BUFFERED[:-1] + ", arrivals: {name: uniform_staleness, max: 0}}"


def result(tmp_path, *overrides, name="run"):
    return run(Scenario.parse(GROWING, "growing", overrides), tmp_path / name).path


@pytest.mark.parametrize("execute", ["true", "cost_only"])
def test_the_noise_that_xnoise_leaves_is_the_noise_that_it_says(tmp_path, execute):
    """Half of eight clients hold samples in the first round, all of them in the second."""
    path = result(tmp_path, f"secagg.execute={execute}", "training.rounds=1")
    (row,) = rows(path, "rounds.csv")
    start = result(tmp_path, "training.rounds=1", "privacy.stages=[]", "secagg=plain", name="plain")
    moved = (np.load(path / "model.npy").astype(float) - np.load(start / "model.npy")) / 1e-6
    assert float(row["sharers"]) == 4 and float(row["noise_std"]) == pytest.approx(1.0)
    assert moved.std() == pytest.approx(1.0, rel=0.15)
    both = rows(result(tmp_path, name="both"), "rounds.csv")
    assert [float(row["sharers"]) for row in both] == [4, 8]
    assert [float(row["noise_std"]) for row in both] == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize("opened", range(4))
def test_what_is_said_to_remain_is_what_was_not_taken_off(opened):
    """Whoever is in the sum, and however many seeds the protocol has opened."""
    stage = made("xnoise", noise_multiplier=2.0, sharers=8, tolerance=3, bits=18)
    weights = np.array([1.0] * 4 + [0.0] * 4)
    seeds = tuple((b"",) * opened if weight else () for weight in weights)
    summed = Members(0, jobs(8), weights, 4.0, opened=seeds)
    share = 4.0 / 8
    assert stage.facts(summed, stage.start(64))["noise_std"] == pytest.approx(
        (4 * share * stage.parts()[: 4 - opened].sum()) ** 0.5 / 4.0
    )
    unopened = summed._replace(opened=())
    assert stage.facts(unopened, stage.start(64)) == stage.facts(summed._replace(opened=((),) * 8), stage.start(64))


@pytest.mark.parametrize("secagg", ["secagg", "lightsecagg", "secagg_plus", "pairwise_ratchet"])
def test_one_client_with_samples_is_not_summed_alone(tmp_path, secagg):
    """The first round fails; in the second all hold samples."""
    protocol = f"secagg={{name: {secagg}, min_sum: 2}}"
    path = result(tmp_path, ONE, protocol, "privacy.stages=[]", "training.server_learning_rate=1")
    first, second = rows(path, "rounds.csv")
    assert first["cardinality"] == "0" and second["cardinality"] == "8"


@pytest.mark.parametrize("training", [BUFFERED, DRAWN], ids=["clock", "drawn"])
def test_a_buffer_in_which_one_client_holds_samples_is_not_recovered(tmp_path, training, monkeypatch):
    """Nobody hides it, and as the model does not change, nobody ever will."""
    overrides = (ONE, training, "privacy.stages=[]", "secagg={name: basecagg, min_sum: 2}")
    for module in ("buffered.server", "sampled_staleness"):
        monkeypatch.setattr(f"simfl.agents.{module}.MAX_FAILED_JOBS", 100)
    with pytest.raises(SimflError, match="jobs in a row have failed"):
        result(tmp_path, *overrides)


@pytest.mark.parametrize("version, without", [(0, [1, 2]), (1, []), (9, [])])
def test_a_cohort_knows_who_is_empty_at_each_version(version, without):
    parts = build(Scenario.parse(GROWING, "growing", [ONE]))
    cohort = parts.cohort_of(0, [[Job(1, 1, version, 0.0)], [Job(2, 2, version, 0.0)], [Job(7, 7, 1, 0.0)]])
    assert ([] if cohort.empty is None else np.flatnonzero(cohort.empty).tolist()) == without
    assert cohort.hiding(np.ones(3, dtype=bool)) == 3 - len(without)
    assert parts.cohort(0, cohort.units, None).empty is None, "all hold some once"
