"""Bar 10: nobody's draws move because somebody else looks, or is there."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas

from simfl.core.errors import SimflError
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.reliability.check import Case, Check, NotMeasured, Outcome, Plan
from tests.reliability.tested import tested
from tests.support.random_scenarios import _attacks, _Draw, random_text
from tests.support.search import PLUGINS, impatient

HERE = Path(__file__).resolve().parent.parent.parent
SAME = ("participation.csv", "jobs.csv", "phases.csv", "model.npy")


def watching(plan: Plan) -> Case:
    """A random scenario without and with events, a timeline, metrics, guarantees and attacks."""

    def drawn(rng: np.random.Generator) -> tuple[Scenario, Scenario]:
        while True:
            document = json.loads(random_text(rng, True)[0])
            bare = {name: value for name, value in document.items() if name not in ("attacks", "trace")}
            stages = document["privacy"].get("stages", []) if isinstance(document["privacy"], dict) else []
            attacks = _attacks(_Draw(rng), document["clients"]) or [{"name": "least_squares"}]
            more = {"trace": "events", "attacks": attacks, "metrics": ["model_change"]}
            try:
                return tuple(Scenario.parse(json.dumps(found), "random", folder=PLUGINS) for found in (
                    bare | {"privacy": {"name": "none", "stages": stages}},
                    bare | more | {"privacy": {"name": "multi_round", "stages": stages}},
                ))  # fmt: skip
            except InvalidScenario:
                continue

    def case(number: int) -> Outcome:
        rng, again = np.random.default_rng([plan.seed, number]), 0
        while True:
            bare, watched = drawn(rng)
            try:
                with impatient():
                    one = run(bare, plan.scratch / "bare").path
                    other = run(watched, plan.scratch / "watched", timeline=plan.scratch / "timeline.json").path
                break
            except SimflError:
                again += 1
        wrong = [
            name for name in SAME if (one / name).exists() and (one / name).read_bytes() != (other / name).read_bytes()
        ]
        before, after = (pandas.read_csv(folder / "rounds.csv", dtype=str) for folder in (one, other))
        wrong += [f"rounds.csv: {name}" for name in before
                  if not name.startswith(("privacy", "measured"))
                  if name not in after or not before[name].equals(after[name])]  # fmt: skip
        for name in ("bare", "watched"):
            shutil.rmtree(plan.scratch / name)
        return Outcome(tuple(wrong), {"stalled and drawn again": again} if again else {})

    return case


WORLD = """
clients: {clients}
network:
  name: star
  latency_s: {{name: log_normal, median: 0.1, sigma: 0.5}}
  jitter_s: {{name: exponential, mean: 0.02}}
devices:
  availability: {{name: bernoulli, dropout: 0.2}}
  computation: {{name: random, distribution: {{name: log_normal, median: 0.3, sigma: 0.6}}}}
  failure: {{name: bernoulli, probability: 0.1}}
selection: {selection}
training: {{name: fedavg, rounds: 12, on_failure: partial}}
learning: {{name: none, parameters: 10, samples: 1}}
privacy: none
trace: events
seed: {seed}
"""
POLICIES = ("all", "{name: random, k: 5}", "{name: batch_partition, k: 6, T: 2, mode: fair}", "{name: bernoulli, k: 5}",
            "{name: weighted, k: 5}")  # fmt: skip


def neighbours(plan: Plan) -> Case:
    """How long each client computes, and whether it fails, in each round: with another policy, with one client more."""

    def known(selection: str, clients: int, seed: int) -> dict[tuple[int, int], tuple[float, bool]]:
        text = WORLD.format(clients=clients, selection=selection, seed=seed)
        folder, found, t = run(Scenario.parse(text, "world"), plan.scratch / "runs", force=True).path, {}, -1
        for line in (folder / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            t += event["event"] == "round_start"
            if event["event"] == "compute" and event["client"] < 12:
                found[t, event["client"]] = round(event["end_s"] - event["start_s"], 9), event["completed"]
        return found

    def case(number: int) -> Outcome:
        truth, compared, wrong = known("all", 12, number), 0, []
        for selection in POLICIES:
            for clients in (12, 18):
                found = known(selection, clients, number)
                both = found.keys() & truth.keys()
                compared += len(both)
                wrong += [f"{selection} of {clients} clients, round {t}, client {i}: {found[t, i]}, not {truth[t, i]}"
                          for t, i in sorted(both) if not _same(found[t, i], truth[t, i])]  # fmt: skip
        shutil.rmtree(plan.scratch / "runs")
        return Outcome(tuple(wrong[:5]), {"works of clients compared": compared})

    return case


def _same(one: tuple[float, bool], other: tuple[float, bool]) -> bool:
    """Times are differences of simulated times, which begin elsewhere."""
    return one[1] == other[1] and abs(one[0] - other[0]) < 1e-6


def lint(plan: Plan) -> Case:
    """Ruff's rules on global generators, clocks and banned modules, over all of simfl."""

    def case(number: int) -> Outcome:
        command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "NPY002,TID251,DTZ005",
                   "--output-format", "concise", "simfl"]  # fmt: skip
        found = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        if "No module named ruff" in found.stderr:
            raise NotMeasured("ruff is not installed")
        files = len(list((HERE / "simfl").rglob("*.py")))
        return Outcome(tuple(line for line in found.stdout.splitlines() if ".py:" in line), {"files": files})

    return case


CHECKS = (
    Check(10, "watching", "random scenarios without and with events, timeline, metrics, guarantees, attacks; "
          "participation, jobs, phases, model and common columns have the same bytes",
          "scenarios", (2, 80, 2_000), watching),
    Check(10, "neighbours", "each client's work in each round under five policies, and with six more clients; the "
          "same times and failures", "seeds", (1, 6, 300), neighbours),
    Check(10, "lint", "no global generator, clock or banned module in simfl", "files", (1, 1, 1), lint),
    tested(10, "stream-tests", "no import of random, time or datetime; a further client changes no draw of any device",
           "whole/test_architecture.py::test_no_global_randomness_and_no_wall_clock", "devices/test_contract.py",
           nightly=("network/test_contract.py", "whole/test_architecture.py", "runs/test_run.py",
                    "runs/test_invariants.py")),
)  # fmt: skip
