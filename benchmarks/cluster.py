"""Training on a cluster: two Dask workers against two processes, also with workers that die and one that joins late.

    python benchmarks/cluster.py [--rounds N] [--json FILE]

LeNet-5 on CIFAR-sized images, K = 12 clients x 500 samples in batches of 100, every round from the model that the mean
of the last one's updates made. The two engines train the same rounds in turn, so that other load on the machine meets
both; then Dask alone again, with a worker killed in every tenth round and a third one that joins half way. All three
must end with the same bytes.
"""

import argparse
import hashlib
import json
import os
import signal
import statistics
import sys
import threading
import time
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from local_rounds import CASES, prepare

from simfl.learning.backends.base import BACKENDS

EVERY = 10
"""Rounds between two kills."""


def rounds_of(engine, works, rounds, before=lambda t: None):
    """Seconds of each round, one a step of the iterator, and the digest of the model so far."""
    model = works[0].start
    for t in range(rounds):
        before(t)
        begin = time.perf_counter()
        deltas, _ = engine.train([replace(work, start=model) for work in works])
        seconds = time.perf_counter() - begin
        model = model + deltas.mean(axis=0)
        print(f"round {t}: {type(engine).__name__} {seconds:.3f} s", file=sys.stderr)
        yield seconds, hashlib.sha256(model.tobytes()).hexdigest()


def disturbed(engine, rounds, usual_s):
    """What happens before a round: every tenth time a worker dies in the middle of it; half way another one joins."""
    rng = np.random.default_rng(0)

    def kill():
        workers = sorted(engine.client.run(os.getpid).items())
        os.kill(workers[rng.integers(len(workers))][1], signal.SIGKILL)

    def before(t):
        if t % EVERY == EVERY - 1:
            threading.Timer(usual_s / 3, kill).start()
        if t == rounds // 2:
            engine.client.cluster.scale(3)

    return before


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=30)
    arguments.add_argument("--json")
    chosen = arguments.parse_args()
    model, shape, held = CASES["lenet5"][:3]

    def engine(name):
        task, works = prepare(model, shape, held)
        built = BACKENDS[name](workers=2).build(task)
        built.train(works)  # starts the workers
        return built, works

    processes, works = engine("processes")
    dask, _ = engine("dask")
    pairs = list(zip(rounds_of(processes, works, chosen.rounds), rounds_of(dask, works, chosen.rounds), strict=True))
    processes.close()
    seconds = {name: [pair[i][0] for pair in pairs] for i, name in enumerate(("processes", "dask"))}
    usual = statistics.median(seconds["dask"])
    seconds["dask, disturbed"], ends = zip(
        *rounds_of(dask, works, chosen.rounds, disturbed(dask, chosen.rounds, usual)), strict=True
    )
    joined = len(dask.client.nthreads())
    dask.close()
    digests = {pairs[-1][0][1], pairs[-1][1][1], ends[-1]}
    found = {
        "rounds": chosen.rounds,
        **{f"{name}, median s": statistics.median(values) for name, values in seconds.items()},
        **{f"{name}, least s": min(values) for name, values in seconds.items()},
        **{f"{name}, all s": sum(values) for name, values in seconds.items()},
        "ratio, median of pairs": statistics.median(b[0] / a[0] for a, b in pairs),
        "ratio, all": sum(seconds["dask"]) / sum(seconds["processes"]),
        "ratio, least": min(seconds["dask"]) / min(seconds["processes"]),
        "same bytes": len(digests) == 1,
        "workers at the end": joined,
    }
    for name, value in found.items():
        print(f"{name:28} {value:.3f}" if isinstance(value, float) else f"{name:28} {value}")
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2)


if __name__ == "__main__":
    main()
