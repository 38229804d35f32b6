"""Local training: plain one-thread SGD against simfl's backends over the same samples, in one run.

    python benchmarks/learning.py [MODEL]... [--repeats N] [--json FILE] [--bf16]

One round is K = 12 clients x 500 samples in batches of 100 (digits: 12 x 89 samples, one batch each).
Plain SGD is torch.optim.SGD over the 6,000 samples in the same batches: one model, no federated learning. Variants
are timed in turn, repeatedly, and each one's fastest time counts: other load on the machine only ever adds to it.
The order of the samples is drawn beforehand for all alike; "with draws" is the whole of Learner.train. Other
simulators are timed too where they are installed (peers.py).
"""

import argparse
import json
import os
import platform
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import peers
import torch
from local_rounds import CASES, K, prepare, round_of
from torch.nn.functional import cross_entropy

from simfl.learning.backends.base import BACKENDS, TrainingTask
from simfl.learning.models.build import build

BEST = {"digits": "dense", "logistic": "dense", "mlp": "dense", "lenet5": "sequential", "cnn_mnist": "sequential"}


def plain_sgd(model, task, works):
    """A function that runs the same steps on one model with torch's own optimiser."""
    module = build(model, tuple(task.x.shape[1:]), 10)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(works[0].start), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), works[0].rate)
    batches = [torch.from_numpy(w.order[a:b]) for w in works for a, b in zip(w.bounds, w.bounds[1:], strict=False)]

    def run():
        for chosen in batches:
            optimiser.zero_grad()
            cross_entropy(module(task.x[chosen]), task.y[chosen]).backward()
            optimiser.step()

    return run


def measure(variants, repeats):
    """Least seconds of each variant, timed in turn after a warm-up."""
    for run in variants.values():
        run()
    taken = {name: [] for name in variants}
    for _ in range(repeats):
        for name, run in variants.items():
            begin = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - begin)
    return {name: min(values) for name, values in taken.items()}


def case(name, repeats, bf16):
    """The variants of one model, timed."""
    model, shape, held, usual, one_core, two_cores, backends = CASES[name]
    task, works = prepare(model, shape, held)
    variants = {"plain SGD": plain_sgd(model, task, works)}
    engines = []
    drawn = BACKENDS[BEST[name]]().build(prepare(model, shape, held)[0])
    variants[f"{BEST[name]}, with draws"] = lambda: drawn.train(round_of(works[0].start, held))
    for backend in backends:
        task, _ = prepare(model, shape, held)
        engine = BACKENDS[backend]().build(task)
        variants[backend] = lambda engine=engine: engine.train(works)
    task, _ = prepare(model, shape, held)
    engines.append(BACKENDS["processes"](workers=2).build(task))
    variants["processes x2"] = lambda: engines[0].train(works)
    if bf16 and BEST[name] == "sequential":
        task, _ = prepare(model, shape, held)
        rough = BACKENDS["sequential"]().build(
            TrainingTask(task.module, task.x, task.y, task.batch_size, task.sgd, bf16=True)
        )
        variants["sequential bf16"] = lambda: rough.train(works)
    if peers.installed("pfl"):
        variants["pfl"] = peers.pfl_round(model, task, works)
    seconds = measure(variants, repeats or usual)
    if peers.installed("Flower"):
        seconds["Flower, Ray x2"] = peers.flower_seconds(name)
    for engine in engines:
        engine.close()
    ratios = {variant: value / seconds["plain SGD"] for variant, value in seconds.items()}
    best = min(ratio for variant, ratio in ratios.items() if variant in BEST[name])
    both = min(best, ratios["processes x2"])
    print(f"\n{name}: {held} samples x {K} clients; plain SGD {1000 * seconds['plain SGD']:.2f} ms")
    for variant, ratio in ratios.items():
        print(f"  {variant:24} {1000 * seconds[variant]:10.2f} ms  {ratio:6.2f}")
    for what, ratio, target in (("one core", best, one_core), ("two cores", both, two_cores)):
        print(f"  {what:10} {ratio:.2f}  target {target:.2f}  {'met' if ratio <= target else 'MISSED'}")
    return {"milliseconds": {variant: 1000 * value for variant, value in seconds.items()}, "ratios": ratios}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(CASES)}; default all")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--bf16", action="store_true", help="time bfloat16 too, where convolutions allow it")
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    if unknown := set(options.models) - set(CASES):
        parser.error(f"unknown model {', '.join(sorted(unknown))}; choose of {', '.join(CASES)}")
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, numpy {np.__version__}, {platform.machine()}, {os.cpu_count()} cores, 1 thread")
    results = {name: case(name, options.repeats, options.bf16) for name in options.models or CASES}
    if absent := [peer for peer in peers.PEERS if not peers.installed(peer)]:
        print(f"\nnot installed here, so not timed: {', '.join(absent)}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    sys.exit(main())
