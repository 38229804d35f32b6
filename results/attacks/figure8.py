"""Figure 8 of Multi-RoundSecAgg (arXiv 2106.03328, App. G): what least squares recovers, with the policies really run.

    python results/attacks/figure8.py [--seeds 4] [--start 150] [--out results]

40 clients, 8 a round, LeNet-5 on CIFAR-10, every client one class and 200 shared samples. After ``--start`` rounds the
learning rate stays (``live``) or is divided by 1460 (``frozen``: the published notebooks divide by the number of
rounds, so that the model stands still). The server combines the sums of the next 40 or 50 rounds. Writes
figure8.csv and figure8.svg: the clients' mean error beside theory, and beside what the notebooks call "proposed": no
run of that policy, but the mean of two neighbours' estimates from the *random* run. With another
``--start`` figure8_START.csv and no figure. Seeds that the CSV holds already are not played again.
"""

from pathlib import Path

import numpy as np
import pandas
from figure8_drawing import HERE, POLICIES, draw, markdown

import simfl
from simfl.agents.aggregation.components import Components
from simfl.attacks.base import ServerView
from simfl.attacks.least_squares import LeastSquares
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.experiments import runner
from simfl.experiments.attack.after_run import ATTACKS, Recorded
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.runs.run import build
from simfl.runs.simulation import run_in_memory
from simfl.scenario import Scenario

START = 150
WINDOWS = 40, 50
DECAY = {"live": 1.0, "frozen": 1 / 1460}
BASE = {
    "name": "attacks_figure8",
    "clients": 40,
    "selection": {"name": "random", "k": 8},
    "training": {
        "name": "fedavg",
        "rounds": START + max(WINDOWS),
        "local_steps": 5,
        "batch_size": 50,
        "learning_rate": 0.05,
        "decay_at": [START],
        "weighting": "equal",
    },
    "learning": {
        "data": "cifar10",
        "model": "lenet5",
        "partition": "data_sharing",
        "evaluate": {"every": 50},
        "backend": "sequential",
    },
    "secagg": {"name": "secagg", "execute": "cost_only"},
    "privacy": "none",
    "trace": "aggregates",
}


def recovered(rounds: list[ServerView], truth: np.ndarray) -> tuple[pandas.DataFrame, np.ndarray]:
    """Each client's error and what theory expects of it, and the estimates (N, d)."""
    observer, streams = LeastSquares(coordinates=None), Streams(0)
    state = observer.start(*truth.shape)
    for seen in rounds:
        guess, state = observer.observe(seen, state, streams)
    estimates, norms = guess.estimates, np.square(truth).sum(axis=1)
    off = np.square(estimates - truth).sum(axis=1)
    left = guess.energy - 2 * np.sum(guess.moments * truth) + np.sum(truth * (guess.gram @ truth))
    noise = max(left, 0.0) / guess.rows * guess.solution.spread
    hidden = np.square(guess.solution.miss @ truth).sum(axis=1)
    table = {"error": off / norms, "expected": (hidden + noise) / norms, "rank": guess.solution.rank,
             "floor": guess.solution.uncorrelated_error, "amplification": guess.solution.amplification}  # fmt: skip
    return pandas.DataFrame(table), estimates


def pairs(estimates: np.ndarray, truth: np.ndarray) -> pandas.DataFrame:
    """What the notebooks call "proposed": neighbours' estimates of the random run, averaged."""
    mean = estimates.reshape(-1, 2, estimates.shape[1]).mean(axis=1).repeat(2, axis=0)
    two = truth.reshape(-1, 2, truth.shape[1])
    length = np.linalg.norm(two, axis=2)
    r = length[:, 1] / length[:, 0]
    c = np.prod(two, axis=1).sum(axis=1) / length.prod(axis=1)
    expected = (2 + r**2 + r**-2 - 2 * c * (r + 1 / r)) / 8  # the mean over a pair, were the estimates exact
    norms = np.square(truth).sum(axis=1)
    return pandas.DataFrame({"error": np.square(mean - truth).sum(axis=1) / norms, "expected": expected.repeat(2),
                             "norm_ratio": np.maximum(r, 1 / r).repeat(2), "cosine": c.repeat(2)})  # fmt: skip


def pretrained(seed: int, start: int, out: Path) -> np.ndarray:
    """The model after so many rounds of random selection."""
    changes = [f"training.rounds={start + max(WINDOWS)}", f"training.decay_at=[{start}]"]
    stored = ResultsFolder.open(simfl.run(BASE, ["training.decay=1.0", f"seed={seed}", *changes], out=out).path)
    return Recorded(stored, Scenario.load(stored.path / SCENARIO)).model(start)


def trained(parts: Components, model: np.ndarray) -> np.ndarray:
    """What every client makes of a model, by jobs of its own, (N, d)."""
    parts.learner.put(ATTACKS, model)
    jobs = [Job((ATTACKS << 32) | client, client, ATTACKS, 0.0) for client in range(parts.clients)]
    return parts.learner.train(jobs).deltas.astype(float)


def measured(seed: int, start: int, out: Path) -> pandas.DataFrame:
    """A row a mode, window and policy: means over the clients."""
    rows, model = [], pretrained(seed, start, out)
    for mode, decay in DECAY.items():
        for name, policy in POLICIES.items():
            rate = BASE["training"]["learning_rate"] * decay
            changes = [f"training.learning_rate={rate}", f"training.rounds={max(WINDOWS)}", "training.decay_at=[]"]
            parts = build(Scenario.of(BASE, overrides=[*changes, f"selection={policy}", f"seed={seed}"]))
            parts.learner.start = model
            seen = [done.seen for done in run_in_memory(parts).rounds]
            for window in WINDOWS:
                truth = trained(parts, seen[window // 2].before)
                table, estimates = recovered(seen[:window], truth)
                kinds = {name: table}
                if name == "random":
                    kinds["pairs of random"] = pairs(estimates, truth)
                for kind, found in kinds.items():
                    about = {"seed": seed, "mode": mode, "window": window, "policy": kind}
                    rows.append(about | dict(found.mean()) | {"error_median": found.error.median()})
                print(seed, mode, name, window, table.error.mean(), flush=True)
    return pandas.DataFrame(rows)


def main() -> None:
    parser = runner.parser(__doc__, seeds=4, shards=False)
    parser.add_argument("--start", type=int, default=START)
    options = parser.parse_args()
    file = HERE / ("figure8.csv" if options.start == START else f"figure8_{options.start}.csv")
    table = pandas.read_csv(file) if file.exists() else pandas.DataFrame({"seed": []})
    for seed in runner.seeds_left(options, table, seconds=120 + 0.3 * options.start):
        rows = measured(seed, options.start, options.out)
        table = rows if table.empty else pandas.concat([table, rows])
        table.to_csv(file, index=False, float_format="%.5g")
    table = pandas.read_csv(file)  # the same figures, whether played now or read
    if options.start == START:
        draw(table)
    else:
        print(markdown(pandas.read_csv(HERE / "figure8.csv"), table, options.start))


if __name__ == "__main__":
    main()
