"""What attacks cost, beside their bars: exits with 1 if one is missed.

    python benchmarks/attacks.py [--shadows 16] [--rounds 300]

* streaming least squares: at most 5 % of the training time (LeNet-5, 12 of 120 clients a round, 4096 coordinates);
* a step of gradient matching: at most 6 times forward and backward of the model on the same sample;
* 16 shadow federations of 300 rounds on two processes: at least 1.8 times as fast as on one.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from simfl.agents.servers import SERVERS
from simfl.agents.world import World
from simfl.attacks.least_squares import LeastSquares
from simfl.attacks.matching import Target, match
from simfl.core.types import Job
from simfl.experiments.attack.after_run import LEAST, likelihood
from simfl.runs.run import build, run
from simfl.scenario import Scenario

ROUNDS = 10
LENET = """
clients: 120
selection: {name: batch_partition, k: 12, T: 2}
training: {name: fedavg, rounds: %d, batch_size: 50, weighting: equal}
learning:
  data: {name: synthetic, shape: [1, 28, 28], classes: 10, samples: 60000}
  model: lenet5
  evaluate: {every: 0}
secagg: {name: secagg, execute: cost_only}
privacy: none
attacks: [least_squares]
"""
SHADOWED = """
name: shadowed
clients: 20
selection: {name: random, k: 10}
training: {name: fedavg, rounds: %d, local_epochs: 5, batch_size: 10}
learning: {data: digits, model: mlp, evaluate: {every: 0}}
privacy: none
"""


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class Stopwatch:
    """Adds up the time spent in methods of an object, inner calls of its own included."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def around(self, owner: type, *names: str) -> None:
        for name in names:
            setattr(owner, name, self._timing(getattr(owner, name)))

    def _timing(self, method: Callable) -> Callable:
        def timing(*arguments, **options):
            begun = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.spent_s += time.perf_counter() - begun

        return timing


def streaming() -> float:
    """Seconds in the observer and its scorer over seconds in training."""
    parts = build(Scenario.parse(LENET % ROUNDS))
    attacking, training = Stopwatch(), Stopwatch()
    attacking.around(LeastSquares, "observe", "update_memory", "error")
    training.around(type(parts.learner), "train")
    server = SERVERS["synchronous"](parts, World(0.0), lambda done: None)
    server.world.run(server.world.spawn(server.run()))
    return attacking.spent_s / training.spent_s


def matching() -> float:
    """A step of gradient matching over forward and backward on the same sample."""
    parts = build(Scenario.parse(LENET % 1))
    learner, steps = parts.learner, 100
    knowledge, truth = learner.attack_context()
    learner.put(0, learner.initial())
    update, x = learner.train([Job(0, 0, 0, 0.0)]).deltas[0], torch.from_numpy(truth.x[:1])
    label = torch.from_numpy(truth.y[:1])

    def plain() -> None:
        for _ in range(steps):
            knowledge.module.zero_grad()
            torch.nn.functional.cross_entropy(knowledge.module(x), label).backward()

    target, first = Target(learner.initial(), update, truth.y[:1]), [np.zeros((1, *knowledge.shape), np.float32)]
    timed(plain)
    ratios = [timed(lambda: match(knowledge, target, first, steps, 0.01)) / timed(plain) for _ in range(5)]
    return float(np.median(ratios))


def processor_s() -> tuple[float, float]:
    """Processor seconds of this process, and of those that it has started and seen end."""
    used = os.times()
    return used.user + used.system, used.children_user + used.children_system


def shadows(count: int, rounds: int) -> tuple[float, float]:
    """Seconds on one process over seconds on two; and the same of processor seconds, the two having a core each."""
    found = []
    with tempfile.TemporaryDirectory() as out:
        path = run(Scenario.parse(SHADOWED % rounds), Path(out)).path
        for jobs in (1, 2):
            begun = processor_s()
            wall_s = timed(lambda jobs=jobs: likelihood(path, count, 200, jobs))
            own_s, children_s = (end - begin for begin, end in zip(begun, processor_s()))
            found.append((wall_s, own_s + children_s / jobs))
    (one, alone), (two, shared) = found
    return one / two, alone / shared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shadows", type=int, default=LEAST)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    spent, steps = streaming(), matching()
    print(f"streaming least squares: {100 * spent:.1f} % of training (bar: 5 %)", flush=True)
    print(f"gradient matching: {steps:.1f} times forward and backward (bar: 6)", flush=True)
    faster, processors = shadows(options.shadows, options.rounds)
    print(
        f"{options.shadows} shadow federations: {faster:.2f} times as fast on two processes (bar: 1.8); "
        f"{processors:.2f} times by processor seconds, whatever else the machine does",
        flush=True,
    )
    sys.exit(int(spent > 0.05 or steps > 6 or faster < 1.8))


if __name__ == "__main__":
    main()
