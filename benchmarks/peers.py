"""Rounds of other federated-learning simulators over the samples of local_rounds.py, where they are installed.

pfl (in one process) is timed in turn with simfl's backends; Flower brings its own processes, so several of its rounds
are timed inside its strategy. Batches are of the same size; pfl does not reshuffle them. Neither evaluates.
"""

import logging
import os
import sys
import time
from functools import lru_cache
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from local_rounds import CASES, prepare
from torch.nn.functional import cross_entropy

from simfl.learning.models.build import build

PEERS = {"pfl": ("pfl",), "Flower": ("flwr", "ray")}
"""Peers and the packages that they need."""


def installed(peer):
    """Whether a peer can be timed here."""
    return all(find_spec(package) for package in PEERS[peer])


def pfl_round(model, task, works):
    """A function that runs one round of pfl's FedAvg over the works' samples.

    Reference: Granqvist et al. 2024, pfl-research.
    """
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Weighted
    from pfl.model.pytorch import PyTorchModel

    module = build(model, tuple(task.x.shape[1:]), 10)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(works[0].start), module.parameters())
    module.loss = lambda x, y: cross_entropy(module(x), y)
    module.metrics = lambda x, y: {"loss": Weighted(cross_entropy(module(x), y).item() * len(y), len(y))}
    held = [Dataset([task.x[work.order], task.y[work.order]]) for work in works]
    users = cycle(range(len(works)))
    data = FederatedDataset(lambda user: held[user], lambda: next(users))
    backend, algorithm = SimulatedBackend(training_data=data, val_data=data), FederatedAveraging()
    learner = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), 1.0))
    local = NNTrainHyperParams(local_batch_size=task.batch_size, local_num_epochs=1, local_learning_rate=works[0].rate)
    played = 0

    def run():
        nonlocal played
        played += 1  # the first round evaluates; it is a warm-up
        rounds = NNAlgorithmParams(played, 10**9, len(works), 0)
        algorithm.run(rounds, backend, learner, local, send_metrics_to_platform=False)

    return run


def flower_seconds(name, rounds=6):
    """Least seconds of a round of Flower's FedAvg on Ray with two actors, its start-up left out.

    Reference: Beutel et al. 2020, Flower.
    """
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])  # of the actors
    client, server = ClientApp(), ServerApp()
    ends = []

    @client.train()
    def train(message, context):
        module, task, works = _held(name)
        work = works[context.node_config["partition-id"]]
        torch.nn.utils.vector_to_parameters(
            torch.from_numpy(message.content["arrays"].to_numpy_ndarrays()[0]), module.parameters()
        )
        optimiser = torch.optim.SGD(module.parameters(), work.rate)
        for a, b in zip(work.bounds, work.bounds[1:], strict=False):
            chosen = work.order[a:b]
            optimiser.zero_grad()
            cross_entropy(module(task.x[chosen]), task.y[chosen]).backward()
            optimiser.step()
        flat = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
        content = {"arrays": ArrayRecord([flat]), "metrics": MetricRecord({"num-examples": len(work.order)})}
        return Message(content=RecordDict(content), reply_to=message)

    @server.main()
    def main(grid, context):
        _, _, works = _held(name)
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=len(works))
        note = lambda number, arrays: ends.append(time.perf_counter())  # noqa: E731
        strategy.start(grid, ArrayRecord([works[0].start]), num_rounds=rounds, evaluate_fn=note)

    resources = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2, "logging_level": "error"}}
    run_simulation(server, client, num_supernodes=12, backend_config=resources)
    return float(np.diff(ends)[1:].min())


@lru_cache(maxsize=1)
def _held(name):
    """Model, task and works of a case, built once in every process."""
    torch.set_num_threads(1)
    model, shape, held, *_ = CASES[name]
    task, works = prepare(model, shape, held)
    return build(model, shape, 10), task, works
