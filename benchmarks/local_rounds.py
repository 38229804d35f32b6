"""Rounds of local training that benchmarks time: models, samples, and the works of twelve clients."""

import numpy as np
import torch

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalPass
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.backends.base import Sgd, TrainingTask
from simfl.learning.models.base import MODELS
from simfl.learning.models.build import build, initial
from simfl.learning.work import work

K, SAMPLES, BATCH = 12, 500, 100
CASES = {
    # name: model, shape, samples of a client, repeats, targets for one and for two cores, backends
    "digits": (MODELS["mlp"](hidden=(64,)), (1, 8, 8), 89, 200, 0.30, 0.30, ("sequential", "dense", "vmap")),
    "logistic": (MODELS["logistic"](), (1, 28, 28), SAMPLES, 60, 0.65, 0.60, ("sequential", "dense", "vmap")),
    "mlp": (MODELS["mlp"](hidden=(200,)), (1, 28, 28), SAMPLES, 25, 1.0, 0.65, ("sequential", "dense", "vmap")),
    "lenet5": (MODELS["lenet5"](), (3, 32, 32), SAMPLES, 7, 1.0, 0.60, ("sequential", "grouped", "vmap")),
    "cnn_mnist": (MODELS["cnn_mnist"](), (1, 28, 28), SAMPLES, 3, 0.95, 0.55, ("sequential",)),
}


def round_of(start, held):
    """The twelve works of a round."""
    local, streams = LocalTraining(batch_size=BATCH, learning_rate=0.05), Streams(0)
    return [
        work(Job(i, i, 0, 0.0), np.arange(i * held, (i + 1) * held), LocalPass(start), local, streams) for i in range(K)
    ]


def prepare(model, shape, held):
    """A task, and the works of a round."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((K * held, *shape), dtype=np.float32))
    y = torch.from_numpy(rng.integers(10, size=K * held))
    module = build(model, shape, 10)
    return TrainingTask(module, x, y, min(BATCH, held), Sgd()), round_of(initial(module, rng), held)
