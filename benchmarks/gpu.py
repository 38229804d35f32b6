"""Backends on a graphics processor: time, memory, waits, error against the processor, same bits twice, and a whole run.

    python benchmarks/gpu.py [MODEL]... [--repeats N] [--device cuda|cpu]

What is measured here is to decide the second row of the table that ``auto`` reads (simfl/learning/backends/choices.py).
Rounds are those of benchmarks/learning.py. Without a graphics processor this is a rehearsal of the same lines on the
processor: nothing it prints was seen on a GPU.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import torch
from local_rounds import CASES, prepare
from torch.profiler import ProfilerActivity, profile

import simfl
from simfl.learning.backends.base import BACKENDS
from simfl.learning.torch_setup import configure_torch, device, device_name

ENGINES = ("sequential", "dense", "grouped", "vmap")
WAITS = ("Synchronize", "_local_scalar_dense", "Memcpy DtoH")
RUN = "quickstart"


def moved(name, place, bf16):
    """The task of a case on a device, and its works."""
    task, works = prepare(*CASES[name][:3])
    return replace(task, module=task.module.to(place), x=task.x.to(place), y=task.y.to(place), bf16=bf16), works


def timed(train, place, repeats):
    """Median milliseconds of a round by the clock, after one that warms up."""
    taken = []
    for _ in range(1 + repeats):
        finish(place)
        begin = time.perf_counter()
        train()
        finish(place)
        taken.append(1e3 * (time.perf_counter() - begin))
    return median(taken[1:])


def finish(place):
    """Waits for what the device has been given."""
    if place.type == "cuda":
        torch.cuda.synchronize()


def profiled(train, place):
    """Milliseconds that the device was at work in a round, and how often the processor waited for it."""
    if place.type != "cuda":
        return "-", "-"
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as record:
        train()
    events = record.key_averages()
    waits = sum(event.count for event in events if any(word in event.key for word in WAITS))
    return f"{sum(event.self_device_time_total for event in events) / 1e3:.2f}", waits


def measure(name, place, repeats):
    """A line for each engine that takes the model."""
    task, works = prepare(*CASES[name][:3])
    expected, _ = BACKENDS["sequential"]().build(task).train(works)
    chosen = BACKENDS["auto"]().choose(moved(name, place, False)[0]).name
    print(f"\n{name}: auto takes {chosen}")
    print(f"  {'backend':20} {'ms':>9} {'at work':>9} {'waits':>6} {'MiB':>6} {'error':>8}  same bits twice")
    for backend in ENGINES:
        for bf16 in (False, True):
            task, works = moved(name, place, bf16)
            if BACKENDS[backend]().refuses(task):
                continue
            try:
                line(backend, BACKENDS[backend]().build(task), works, place, repeats, bf16, expected)
            except Exception as error:  # one that fails is a finding, and the others are measured
                print(f"  {backend + ' bf16' * bf16:20} FAILED {error!r:.200}", flush=True)


def line(backend, engine, works, place, repeats, bf16, expected):
    """What one engine does."""
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    ms = timed(lambda: engine.train(works), place, repeats)
    first, second = engine.train(works)[0], engine.train(works)[0]
    busy, waits = profiled(lambda: engine.train(works), place)
    memory = torch.cuda.max_memory_allocated() >> 20 if place.type == "cuda" else "-"
    error = np.abs(first - expected).max() / np.abs(expected).max()
    same = "yes" if np.array_equal(first, second) else "NO"
    print(
        f"  {backend + ' bf16' * bf16:20} {ms:9.2f} {busy:>9} {waits:>6} {memory:>6} {error:8.1e}  {same}", flush=True
    )


def runs(place):
    """A built-in scenario twice on the device, and once on the processor."""
    print(f"\n{RUN}, 3 rounds:")
    with TemporaryDirectory() as folder:
        models = []
        for i, name in enumerate((place.type, place.type, "cpu")):
            begin = time.perf_counter()
            result = simfl.run(RUN, {"learning.device": name, "training.rounds": 3}, out=Path(folder) / str(i))
            said = f"{result.summary['backend']} on {result.summary['device']}"
            print(f"  {said}: {time.perf_counter() - begin:.2f} s")
            models.append(np.load(result.path / "model.npy"))
    off = np.abs(models[0] - models[2]).max() / np.abs(models[2]).max()
    print(f"  same bits twice: {'yes' if np.array_equal(*models[:2]) else 'NO'}; off the processor's by {off:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(CASES)}; default all, in a rehearsal digits")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if unknown := set(options.models) - set(CASES):
        parser.error(f"unknown model {', '.join(sorted(unknown))}; choose of {', '.join(CASES)}")
    configure_torch()
    place = device(options.device)
    rehearsal = place.type != "cuda"
    print(f"torch {torch.__version__}, {device_name(place)}")
    for name in options.models or (["digits"] if rehearsal else CASES):
        measure(name, place, options.repeats or (1 if rehearsal else 7))
    runs(place)
    if rehearsal:
        print("\na rehearsal on the processor: nothing was seen on a GPU")


if __name__ == "__main__":
    sys.exit(main())
