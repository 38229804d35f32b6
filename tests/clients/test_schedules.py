"""Schedules of the learning rate against those of torch, and where a run reads them."""

import numpy as np
import pytest
import torch

import simfl
from simfl.clients.local_training import LocalTraining
from simfl.clients.schedules import SCHEDULES, Cosine, RateSteps, WarmUp
from simfl.core.errors import PluginError, SimflError

SMALL = {"clients": 8, "selection": "random:k=4", "learning.data": "digits:samples=100", "training.rounds": 6}


def of_torch(make, rounds=30):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule, rates = make(optimiser), []
    for _ in range(rounds):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    return rates


def rates(schedule, rounds=30):
    local = LocalTraining(learning_rate=0.1, schedule=schedule)
    return [local.rate(version) for version in range(rounds)]


def test_they_are_those_of_torch():
    of = torch.optim.lr_scheduler
    cosine = of_torch(lambda o: of.CosineAnnealingLR(o, 30, eta_min=0.01))
    np.testing.assert_allclose(rates(Cosine(rounds=30, lowest=0.1)), cosine, rtol=1e-12)
    steps = of_torch(lambda o: of.MultiStepLR(o, [7, 20], 0.3))
    np.testing.assert_allclose(rates(RateSteps(at=(7, 20), by=0.3)), steps, rtol=1e-12)
    warm = of_torch(lambda o: of.LinearLR(o, 1 / 6, 1.0, 5))
    np.testing.assert_allclose(rates(WarmUp(rounds=5)), warm, rtol=1e-12)


def test_warm_up_is_multiplied_with_what_follows():
    both, alone = rates(WarmUp(rounds=4, then=Cosine(rounds=20))), rates(Cosine(rounds=20))
    np.testing.assert_allclose(both[:4], np.array(alone[:4]) * np.arange(1, 5) / 5)
    assert both[4:] == alone[4:]


@pytest.mark.parametrize("training", ["fedavg", "fedbuff"])
def test_steps_are_decay_at(training, tmp_path):
    rule = {"name": training, "rounds": 6, **({"concurrency": 6, "buffer": 3} if training == "fedbuff" else {})}
    one = simfl.run("quickstart", SMALL | {"training": rule | {"decay_at": [2, 4], "decay": 0.5}}, out=tmp_path)
    steps = {"schedule": {"name": "steps", "at": [2, 4], "by": 0.5}}
    other = simfl.run("quickstart", SMALL | {"training": rule | steps}, out=tmp_path)
    assert (one.path / "rounds.csv").read_bytes() == (other.path / "rounds.csv").read_bytes()
    assert one.path != other.path


def test_cosine_ends_with_the_run():
    assert simfl.load("quickstart", {"training.schedule": "cosine"}).training.schedule.rounds == 60
    endless = {"training.rounds": None, "training.stop": {"time_s": 3.0}, "training.schedule": "cosine"}
    with pytest.raises(SimflError, match=r"training.schedule.rounds: is null"):
        simfl.load("quickstart", endless)


@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf"), None])
def test_factors_that_are_none_are_refused(factor):
    class Wrong:
        name = "wrong"

        def factor(self, version):
            return factor

    with pytest.raises(PluginError, match="at round 3; it has to be a number"):
        LocalTraining(schedule=Wrong()).rate(3)


def test_every_schedule_is_pure_and_stays_a_factor():
    for name in SCHEDULES:
        chosen = simfl.load("quickstart", {"training.schedule": {"name": name, **SCHEDULES[name].example}})
        schedule = chosen.training.schedule
        factors = [schedule.factor(version) for version in range(200)]
        assert factors == [schedule.factor(version) for version in range(200)]
        assert all(0 <= each <= 1 for each in factors)
