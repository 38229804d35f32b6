"""Bar 1: one seed, one trace, whatever hash seed, threads, engine and repeat."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.reliability.check import Case, Check, NotMeasured, Outcome, Plan

HERE = Path(__file__).resolve().parent.parent.parent
TEXT = """
name: same
clients: 12
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.5}}
devices: {availability: {name: bernoulli, dropout: 0.2}, failure: {name: bernoulli, probability: 0.1}}
selection: {name: batch_partition, k: 6, T: 2}
training: {name: fedavg, rounds: 4, batch_size: 20, learning_rate: 0.1}
learning: {data: digits, partition: {name: dirichlet, beta: 0.5}, model: {name: mlp, hidden: [16]}}
privacy: {stages: [{name: central_gaussian, max_weight: 1000}]}
trace: events
"""
PLAYS = """
import json, sys
from pathlib import Path
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.results.folder import ResultsFolder
engine, repeats, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
for repeat in range(repeats):
    done = run(Scenario.load(out / "same.yaml", ["learning.backend=" + engine]), out / str(repeat))
    files = ResultsFolder.open(done.path).files
    print(json.dumps({name: files[name] for name in sorted(files) if name != "scenario.yaml"}))
"""
HASH_SEEDS, THREADS = (0, 1, 2), (1, 2, 8)
ENGINES = ("auto", "processes:workers=2", "dask:workers=2", "processes:workers=4")
REPEATS = {"smoke": (2, 1), "five-minutes": (12, 1), "nightly": (100, 10)}
"""How often each of the 36 combinations is played in one process and on the other engines."""


def traces(plan: Plan) -> Case:
    """Every file's digest, over repeats and over combinations."""
    known: dict[str, set[str]] = {}

    def case(number: int) -> Outcome:
        hash_seed = HASH_SEEDS[number % 3]
        threads = THREADS[(number + number // 3) % 3]
        engine = ENGINES[(number % 9 + number // 9) % 4]
        if engine.startswith("dask") and find_spec("distributed") is None:
            raise NotMeasured('the extra "cluster" is not installed')
        if not known:
            known["files"] = _played(plan.scratch / "first", "auto", 1, 0, 1)
        repeats = REPEATS[plan.size][engine != "auto"]
        found = _played(plan.scratch / str(number), engine, repeats, hash_seed, threads)
        about = f"{engine}, PYTHONHASHSEED={hash_seed}, {threads} threads"
        wrong = [f"{about}: {_differing(text, known['files'])} differ" for text in sorted(found - known["files"])]
        return Outcome(tuple(wrong), {"runs": repeats, f"on {engine}": repeats, "of 36 combinations": 1})

    return case


def _played(folder: Path, engine: str, repeats: int, hash_seed: int, threads: int) -> set[str]:
    """The digests of all files, as JSON; one text if all repeats agree."""
    folder.mkdir()
    (folder / "same.yaml").write_text(TEXT)
    environment = os.environ | {"PYTHONPATH": str(HERE), "PYTHONHASHSEED": str(hash_seed)}
    environment |= {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "OPENBLAS")}
    command = [sys.executable, "-c", PLAYS, engine, str(repeats), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return set(done.stdout.split("\n")) - {""}


def _differing(text: str, expected: set[str]) -> str:
    one, other = json.loads(text), json.loads(next(iter(expected)))
    return ", ".join(name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name))


CHECKS = (
    Check(1, "traces", "a learning run with noise, again in fresh processes, by combinations of 3 hash seeds, 1, 2, 8 "
          "threads, and one process, 2 or 4 processes or 2 Dask workers; every file has the same SHA-256",
          "runs", (2, 14, 1_170), traces),
)  # fmt: skip
