"""Studies whose truth is known: groups of runs drawn from distributions, never played."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas

from simfl.report.study import Group, Run, Study
from simfl.results.folder import ResultsFolder

TARGET = 0.5


@dataclass(frozen=True)
class Truth:
    """What a group's runs are drawn from.

    Attributes:
        accuracy: its mean.
        noise: standard deviation of what is each run's own; without it runs of a seed differ by the means.
        time_s: mean time to the target.
        reaches: probability that a run reaches the target.
        cardinality: its mean.
        guarantee: for any number of rounds.
        known: whether theory says so.
        falls_until: round in which the simulated guarantee gets there.
        seeds: runs, if not as many as the others have.
    """

    accuracy: float = 0.8
    noise: float = 0.02
    time_s: float = 100.0
    reaches: float = 1.0
    cardinality: float = 8.0
    guarantee: int = 2
    known: bool = True
    falls_until: int = 100
    seeds: tuple[int, ...] | None = None


def simulated(truths, rng, seeds=5, rounds=20, step_s=0.0, axis="selection", privacy=True):
    """A study: what a seed has in common shifts all groups, what is left is each run's own.

    Args:
        truths: one a group; the first is the baseline.
        rng: generator.
        step_s: times to the target come in multiples of it (models are measured every so many rounds); 0 = any.
    """
    shared = rng.normal(size=seeds)
    groups = []
    for place, truth in enumerate(truths):
        runs = [_run(truth, seed, shared[seed], rng, rounds, step_s, privacy) for seed in truth.seeds or range(seeds)]
        groups.append(Group(f"group_{place}", {axis: f"group_{place}"}, tuple(runs), place))
    return Study("simulated", (axis,), tuple(groups), (), "group_0", TARGET)


def _run(truth, seed, shared, rng, rounds, step_s, privacy):
    time_s = truth.time_s * float(np.exp(0.1 * shared + rng.normal(0, 0.1)))
    if step_s:
        time_s = step_s * max(1, round(time_s / step_s))
    guarantee = np.maximum(truth.guarantee, truth.guarantee + 10 * (1 - np.arange(rounds) / truth.falls_until))
    accuracy = truth.accuracy + 0.02 * shared + float(rng.normal(0, 1.0)) * truth.noise
    summary = {
        "name": "simulated", "seed": seed, "digest": f"{rng.integers(1 << 40):x}", "clients": 40, "rounds": rounds,
        "skipped": 0, "time_s": 10.0 * rounds + float(rng.normal()), "test_accuracy": accuracy,
        "best_test_accuracy": accuracy, "mean_cardinality": truth.cardinality + float(rng.normal(0, 0.3)),
        "sha256": {}, "bytes_down": 10**6, "bytes_up": 10**6 + int(rng.integers(1000)),
    }  # fmt: skip
    if privacy:
        for notion in ("strong", "semi_strong", "weak"):
            summary[f"privacy_{notion}" + "_lower" * (notion == "weak")] = float(guarantee[-1])
            if truth.known:
                summary[f"guarantee_{notion}"] = truth.guarantee
        summary["privacy_weak_upper"] = summary["privacy_weak_lower"]
    run = Run(ResultsFolder(Path("/nowhere"), summary))
    if privacy and not truth.known:
        columns = {"privacy_strong": guarantee, "privacy_semi_strong": guarantee, "privacy_weak_lower": guarantee}
        run.__dict__["rounds"] = pandas.DataFrame({"round": np.arange(rounds)} | columns)
    reached = {"time_to_target_s": time_s} if rng.random() < truth.reaches else {}
    run.__dict__["_to_target"] = {TARGET: reached}
    return run
