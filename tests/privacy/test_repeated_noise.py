"""Noise that is drawn twice is two noises: whatever stage stands in a list again, or draws as another one does."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from simfl.core import rng as rng_module
from simfl.core.rng import Streams
from simfl.core.types import Job, JobId
from simfl.privacy.dp.stages.central_gaussian import CentralGaussian
from simfl.privacy.stage import STAGES, Members, Stage, stage_streams
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.support.judge import table

OWN = {name: cls for name, cls in STAGES.items() if cls.__module__.startswith("simfl.")}
NOISY = [name for name, cls in OWN.items() if cls.adds_noise or cls.certificate]
WHOLE = {name: {"sharers": 2, "bits": 20} for name in ("discrete_gaussian", "skellam", "xnoise")}
SETTINGS = {"adaptive_gaussian": {"bit_std": 4.0}, "laplace_shares": {"sharers": 2}, **WHOLE}
D = 16
JOBS = tuple(Job(JobId.of(0, client), client, 0, 0.0) for client in range(2))
BASE = {
    "name": "twice", "clients": 4, "seed": 1, "selection": "all",
    "training": {"name": "fedavg", "rounds": 2, "weighting": "equal", "weight_decay": 0.1},
    "learning": {"data": "digits", "model": "logistic", "partition": "iid"},
}  # fmt: skip


def made(name):
    return STAGES.of({"name": name, **getattr(STAGES[name], "example", {}), **SETTINGS.get(name, {})})


def noise_of(stage, streams):
    """All that a stage adds to two updates of zeros, and to their sum, as one vector."""
    state = stage.start(D)
    sent = stage.client(np.zeros((2, D), dtype=np.float32), JOBS, state, streams)
    members = Members(0, JOBS, np.ones(2), 2.0)
    released, _ = stage.server(np.zeros(sent.shape[1], dtype=sent.dtype), members, state, streams)
    return np.concatenate([np.ravel(sent).astype(float), np.ravel(released).astype(float)])


def independent(one, other):
    """Whether two noises have no number in common, but for those that are none: 0, and the bits of 1/2."""
    drawn = ~np.isin(np.abs(one), (0, 0.5))
    return drawn.any() and not np.isclose(one, other)[drawn].any()


@pytest.mark.parametrize("name", NOISY)
def test_a_stage_that_is_listed_twice_draws_two_noises_the_first_as_if_it_stood_alone(name):
    stage = made(name)
    streams = stage_streams((stage, stage, replace(stage)), Streams(3))
    alone, *listed = noise_of(stage, Streams(3)), *(noise_of(stage, each) for each in streams)
    assert alone.tobytes() == listed[0].tobytes()
    if stage.whole:  # whole numbers: some are equal by chance
        assert len({each.tobytes() for each in listed}) == 3
    else:
        assert all(independent(listed[i], listed[j]) for i in range(3) for j in range(3) if i != j)


@dataclass(frozen=True)
class Likewise(CentralGaussian):
    """A user's stage that draws as the built-in one that it is."""


def test_so_does_a_stage_that_draws_as_another_one_does():
    stages = (CentralGaussian(), STAGES.of("clipping"), Likewise())
    one, _, other = stage_streams(stages, Streams(3))
    assert independent(noise_of(stages[0], one), noise_of(stages[2], other))


def test_stages_of_their_own_draws_keep_the_runs_own_streams():
    names = ("clipping", "local_gaussian", "local_laplace", "local_staircase", "central_gaussian", "adaptive_gaussian")
    assert {each.within for each in stage_streams([made(name) for name in names], Streams(3))} == {""}
    assert [each.within for each in stage_streams([Stage, Stage][:0], Streams(3))] == []


@pytest.mark.parametrize("name", NOISY)
def test_no_run_draws_from_one_address_in_two_stages(name, tmp_path, monkeypatch):
    stage = {"name": name, **getattr(STAGES[name], "example", {}), **SETTINGS.get(name, {})}
    try:
        scenario = Scenario.parse(json.dumps(BASE | {"privacy": {"stages": [stage, stage]}}))
    except InvalidScenario as refused:
        assert {problem.key for problem in refused.problems} & {"privacy.stages.0", "privacy.stages.1"}
        return
    asked, plain = [], rng_module.generator
    monkeypatch.setattr(rng_module, "generator", lambda address: asked.append(address) or plain(address))
    folder = run(scenario, tmp_path).path
    noise = [address for address in asked if b"dp/" in address]
    assert noise and sum(b"stage 1/" in address for address in noise) == len(noise) / 2
    assert len(set(noise)) == len(noise)
    assert table(folder / "rounds.csv")[-1]["epsilon_max"]
