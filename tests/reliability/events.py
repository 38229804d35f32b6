"""Bar 7: event semantics hold in random scenarios, and shuffled ties change no conclusion."""

import shutil
from collections import Counter
from unittest import mock

import numpy as np
from scipy.stats import ks_2samp

from simfl.agents.world import World
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.reliability.check import Case, Check, Outcome, Plan
from tests.support.search import broken, impatient

SURE = 0.001
SEEDS = 30
SAME = 5
"""Seeds of which it is counted whether another order of ties makes another run of them."""
AGAIN = 10**6
"""Between the seeds of a scenario and of its replacement."""
TIED = """
clients: 12
network: {name: star, latency_s: 0.25}
devices:
  computation: {name: random, distribution: {name: empirical, values: [0.25, 0.5, 1.0]}}
  failure: {name: bernoulli, probability: 0.1}
learning: {name: none, parameters: 10, samples: 1}
privacy: none
"""
RULES = (
    "{name: fedavg, rounds: 20, deadline_s: 1.0}",
    "{name: fedbuff, rounds: 20, concurrency: 6, buffer: 4}",
    "{name: fedbuff, rounds: 20, concurrency: 12, buffer: 4, deadline_s: 1.0}",
)
POLICIES = ("{name: random, k: 4}", "{name: batch_partition, k: 4, T: 2}", "{name: partition, k: 4}")
MEASURES = ("time_s", "mean_cardinality", "fairness_gap", "failed")


def scenarios(plan: Plan) -> Case:
    """A random scenario; one that can never end (its deadline is too short, say) is drawn again and counted."""

    def case(number: int) -> Outcome:
        ends: Counter[str] = Counter()
        for again in range(50):
            with impatient():
                wrong, ended = broken([number], plan.scratch / "runs", plan.seed + again * AGAIN)
            shutil.rmtree(plan.scratch / "runs", ignore_errors=True)
            ends += ended
            if wrong or not ended["stalled"]:
                break
        judged = {"judged scenarios": int(bool(wrong) or not ended["stalled"]), "full of exact ties": ends["tied"]}
        drawn = {"drawn": ends.total(), "of them given up by the stall rule, not judged": ends["stalled"]}
        return Outcome(tuple(wrong.get(number, ())), judged | drawn)

    return case


def ties(plan: Plan) -> Case:
    """What a summary says over 30 seeds, in the documented order of ties and in any other."""
    kinds = [(rule, policy) for rule in RULES for policy in POLICIES]

    def said(number: int, seed: int) -> list[float]:
        rule, policy = kinds[number % len(kinds)]
        text = f"{TIED}training: {rule}\nselection: {policy}\nseed: {seed}\n"
        summary = run(Scenario.parse(text, "tied"), plan.scratch / "runs", force=True).summary
        return [float(summary[name]) for name in MEASURES]

    def case(number: int) -> Outcome:
        first = 1000 * (number // len(kinds)) + plan.seed
        rng = np.random.default_rng([plan.seed, number])
        documented = np.array([said(number, first + i) for i in range(SEEDS)])
        with _shuffled(rng):
            shuffled = np.array([said(number, first + SEEDS + i) for i in range(SEEDS)])
            moved = sum(said(number, first + i) != documented[i].tolist() for i in range(SAME))
        shutil.rmtree(plan.scratch / "runs")
        p = [ks_2samp(a, b, method="asymp").pvalue for a, b in zip(documented.T, shuffled.T, strict=True)]
        wrong = [f"{kinds[number % len(kinds)]}: {name} differs, p = {value:.2g}"
                 for name, value in zip(MEASURES, p, strict=True) if value < SURE]  # fmt: skip
        moved_runs = {f"of the first {SAME} runs of each changed by another order": moved}
        return Outcome(tuple(wrong), moved_runs | {"Kolmogorov-Smirnov tests": len(MEASURES)})

    return case


def _shuffled(rng: np.random.Generator):
    """Whatever is scheduled for one instant and phase happens in any order."""

    class Shuffled(World):
        def __init__(self, start_s: float = 0.0) -> None:
            super().__init__(start_s)
            self._env._eid = iter(lambda: int(rng.integers(2**62)), None)

    return mock.patch("simfl.runs.simulation.World", Shuffled)


CHECKS = (
    Check(7, "events", "random scenarios of all families with failures, deadlines, protocols, attacks; every "
          "invariant (time, causes, order, bytes, counts, ends) recomputed from the tables alone",
          "judged scenarios", (3, 300, 10_000), scenarios),
    Check(7, "ties", "a rule and a policy over 30 seeds in the documented order of ties, and over 30 in any order; no "
          "measure has another distribution (p > 0.001)", "rules and policies", (1, 3, 90), ties),
)  # fmt: skip
