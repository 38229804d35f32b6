"""What one training sample moves in what is released, measured, against the epsilons of single samples.

Two worlds of one sample's difference are trained by the real clients and summed by the real server, with the same draws
of noise; the noise is measured over other draws. Nothing here asks what a rule says of training: of pure noise of an
epsilon no statistic moves by more than 2 sinh(epsilon / 2) of its own standard deviations (Hammersley, Chapman and
Robbins).
"""

from dataclasses import dataclass, replace
from math import inf, sinh
from typing import ClassVar
from unittest import mock

import numpy as np

from simfl.agents.server_choice import make_server
from simfl.agents.world import World
from simfl.learning.data.base import Data, Dataset
from simfl.learning.partitions.base import Split
from simfl.probes.signal import SLACK, Refuted, separation
from simfl.probes.simulate import Watched
from simfl.runs.run import build

TRAINING = {"name": "fedavg", "rounds": 1, "weighting": "equal", "weight_decay": 1.0, "batch_size": 1,
            "shuffle": False, "learning_rate": 0.75}  # fmt: skip
LEARNING = {"data": "one_apart", "model": "binary_logistic", "partition": "in_order", "evaluate": {"every": 0}}
HELD = 48
CLIENTS = 3


@dataclass(frozen=True)
class OneApart(Data):
    """Points of length 1 in two classes; in the other world client 0 holds another point where it tells most: last."""

    world: ClassVar[int] = 0

    def load(self, setting, streams):
        n = HELD * CLIENTS
        angle = np.linspace(0, 6, n)
        x, y = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32), np.arange(n) % 2
        if self.world:
            x[HELD - 1], y[HELD - 1] = -x[HELD - 1], 1 - y[HELD - 1]
        return Dataset(x, y, x[:4], y[:4], ("0", "1"))


@dataclass(frozen=True)
class InOrder:
    """Equal parts, as the samples come."""

    disjoint = True

    def split(self, data, clients, rng):
        return Split.of(np.array_split(np.arange(len(data.y_train)), clients))


def released(scenario, world, redraw):
    """The change of the model in one round, (d,), and the round's cells; other draws of noise by ``redraw``."""
    with mock.patch.object(OneApart, "world", world):
        parts = build(scenario)
    parts = replace(parts, streams=Watched(scenario.seed, redraw=redraw), recovery_budget=0)
    rounds = []
    server = make_server(parts, World(0.0), rounds.append, None)
    before = server.model.copy()
    server.world.run(server.world.spawn(server.run()))
    return server.model - before, rounds[0].row


def refuted_samples(scenario, draws=40):
    """Epsilons of a weight, or of the model, above which one replaced sample moves what is released."""
    worlds = [[released(scenario, world, redraw) for redraw in range(1, draws + 1)] for world in (0, 1)]
    one, two = (np.array([model for model, _ in world], dtype=np.float64) for world in worlds)
    said = {name: value for name, value in worlds[0][0][1].items() if name.startswith("epsilon_")}
    refuted = []
    for name, epsilon in said.items():
        views = [slice(None)] if name == "epsilon_model" else [[i] for i in range(one.shape[1])]
        measured = max(separation((one - two)[:, view], two[:, view])[1] for view in views)
        limit = inf if epsilon > 50 else 2 * sinh(epsilon / 2)
        if measured > SLACK * limit:
            refuted.append(
                Refuted(f"{name}: standard deviations by which one sample moves what is seen", limit, measured)
            )
    assert min(said.values()) < inf, "nothing is said"
    return refuted
