"""What personal models and masks cost, each against the thing it is beside, in one run.

    python benchmarks/personal.py [--repeats N]

* masking: the sign mask and the mean of K = 12 updates of 1,663,370 coordinates, over the mean alone (bar: 3);
* pruning: one pruning of LeNet-5's and ResNet-18's weights, over one epoch of 50 samples in batches of 8 (bar: 0.1);
* a pruning round: five FedLTN clients of which every one prunes, over five FedAvg clients (bar: 2.2);
* memory: what 100 clients with ResNet-8s of their own keep after a job each, and the process's peak (bar: 2 GB).

What is compared takes turns, and the median of the ratios of their processor times counts (one thread): other load on
the machine slows both. Exit status 1 if a bar is missed.
"""

import argparse
import os
import resource
import statistics
import sys
import time
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from simfl.core.types import Job
from simfl.learning.models.base import MODELS
from simfl.learning.models.build import build as build_model
from simfl.learning.models.build import initial
from simfl.learning.models.flat import parameters
from simfl.papers.lottery_tickets.sparse import prunable, prune
from simfl.runs.run import build
from simfl.scenario import Scenario
from simfl.training.aggregates import AGGREGATES

SCENARIO = """
clients: {clients}
selection: all
training: {{name: fedavg, rounds: 1, local_epochs: {epochs}, batch_size: 8, momentum: 0.5, weighting: equal}}
learning:
  data: {{name: synthetic, samples: {samples}, test_samples: 10, shape: [3, 32, 32], classes: 10}}
  holdout: {{validation: 0.5}}
  model: {model}
privacy: none
"""


def spent(function):
    """Seconds of processor time."""
    begun = time.process_time()
    function()
    return time.process_time() - begun


def ratio(repeats, one, other):
    """How much more the one costs than the other."""
    one(), other()
    return statistics.median(spent(one) / spent(other) for _ in range(repeats))


def learner_of(model, clients, personal, epochs=1):
    """A learner of clients with 50 training and 50 validation samples."""
    text = SCENARIO.format(clients=clients, samples=125 * clients, model=model, epochs=epochs)
    learner = build(Scenario.parse(text, "bench", [f"training.personal={personal}"])).learner
    learner.put(0, learner.initial())
    return learner


def masking(repeats):
    rng = np.random.default_rng(0)
    deltas, weights = rng.normal(size=(12, 1_663_370)).astype(np.float32), np.ones(12)
    mean, masked = AGGREGATES["mean"](), AGGREGATES["masked"]()

    def both():
        factor = masked.factor(deltas, weights, None, ())
        return factor.values * masked.combine(deltas, weights, 12.0)

    return ratio(repeats, both, lambda: mean.combine(deltas, weights, 12.0))


def pruning(name, repeats):
    module = build_model(MODELS[name](), (3, 32, 32), 10)
    model, layers = initial(module, np.random.default_rng(0)), prunable(parameters(module))
    mask = np.ones(len(model), dtype=bool)
    learner = learner_of(name, 2, "none" if name == "lenet5" else "fedbn")
    return ratio(repeats, lambda: prune(model, mask, layers, 0.1), lambda: learner.train([Job(0, 0, 0, 0.0)]))


def a_round(repeats):
    jobs = [Job(client, client, 0, 0.0) for client in range(5)]
    learners = [learner_of("lenet5", 5, personal, epochs=3) for personal in ("{name: fedltn, threshold: 0}", "none")]

    def play(learner):
        learner.states._clients.clear()
        learner.sizes(jobs)
        learner.train(jobs)

    return ratio(2 * repeats, *(partial(play, learner) for learner in learners))


def memory():
    """Megabytes that 100 clients keep, and gigabytes of the process at most."""
    learner = learner_of("resnet8", 100, "{name: fedltn, threshold: 0}")
    learner.train([Job(client, client, 0, 0.0) for client in range(100)])
    kept = sum(np.asarray(value).nbytes for own in learner.states._clients.values() for value in own.values())
    return kept / 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    kept, peak = memory()
    found = [
        ("masked over mean", masking(repeats), 3.0),
        ("pruning LeNet-5 over its epoch", pruning("lenet5", repeats), 0.1),
        ("pruning ResNet-18 over its epoch", pruning("resnet18_bn", min(repeats, 3)), 0.1),
        ("pruning round over FedAvg's", a_round(repeats), 2.2),
        (f"peak with 100 ResNet-8s, GB (they keep {kept:.1f} MB)", peak, 2.0),
    ]
    for what, value, bar in found:
        print(f"{what:60} {value:8.3f}  bar {bar}{'' if value <= bar else '  MISSED'}")
    sys.exit(any(value > bar for _, value, bar in found))


if __name__ == "__main__":
    main()
