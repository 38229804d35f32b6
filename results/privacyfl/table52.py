"""Experiment 2 of experiments.py, Table 5.2 of the thesis."""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pandas
from scipy import stats

from simfl.results.run_files import read_table
from simfl.runs.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE.parent.parent / "scenarios"
NAMES = ("Boston", "Singapore", "New York")
SIZES = (150, 150, 250)
TABLE_52 = {  # epsilon of each client; None = it is not there
    "S1": ((), (0.750, 0.793, 0.823)),
    "S2": ((1.0, 1.0, None), (0.806, 0.810, None)),
    "S3": ((0.1, 0.1, 0.1), (0.767, 0.800, 0.813)),
    "S4": ((1.0, 1.0, 0.1), (0.827, 0.830, 0.850)),
}
ALPHA = 0.03
"""Of the figures' noise. The publication's code states 1, at which no epsilon of its figures makes a difference."""
ALPHAS = (0.015, 0.02, 0.03)
"""Of Table 5.2."""
LONGER = ("50 passes, rate 0.1", ["training.local_epochs=50", "training.learning_rate=0.1"], 20)
"""Clients that train until little changes, and for how many of the seeds."""
PAIRS = (("S2", "S3"), ("S3", "S1"), ("S2", "S1"), ("S4", "S2"), ("S4", "S1"))
"""Of two rows, the one that the publication prints as the better one first; of client 3, S1 is better than S3."""


def played(scenario: str, changes: list[str], out: Path) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """rounds.csv and evaluation.csv of a run."""
    folder = run(Scenario.load(SCENARIOS / f"{scenario}.yaml", changes), out, resume=True).path
    return read_table(folder / "rounds.csv"), read_table(folder / "evaluation.csv")


def epsilon_weight(row: pandas.Series) -> float:
    """That of a round with noise: infinite where the cell is empty, as where noise was clipped."""
    return inf if pandas.isna(row.epsilon_weight) else float(row.epsilon_weight)


def alone(client: int, rounds: int) -> list[str]:
    """One client, without noise and masks: its own models."""
    there = f"[{NAMES[client]}, 0, {rounds}]"
    return ["secagg=plain", "privacy.stages=[]",
            f"devices.availability={{name: trace, unit: rounds, inline: [{there}]}}"]  # fmt: skip


def noise(alpha: float = ALPHA, **fields: Any) -> str:
    inside = ", ".join(f"{name}: {value}" for name, value in fields.items())
    return f"privacy.stages=[{{name: output_perturbation, alpha: {alpha}, {inside}}}]"


def table52(seed: int, out: Path) -> Iterator[dict[str, Any]]:
    """Each client's accuracy with the model as it sees it, without its own noise, and that of the model as it is."""
    name, longer, seeds = LONGER
    kinds = [("5 passes, rate 1", [], alpha, "published") for alpha in ALPHAS]
    kinds += [("5 passes, rate 1", [], 0.02, "calibrated")]
    kinds += [(name, longer, 0.02, "published")] if seed < seeds else []
    for training, more in {training: more for training, more, *_ in kinds}.items():
        fixed = [f"seed={seed}", "training.rounds=1", *more]
        data = f"learning.partition={{name: growing, first: {list(SIZES)}}}"
        for client in range(3):
            rounds, _ = played("privacyfl", [*fixed, data, *alone(client, 1)], out)
            yield {"training": training, "alpha": None, "noise": "", "row": "S1", "client": f"{client + 1}",
                   "accuracy": rounds.test_accuracy.iloc[-1]}  # fmt: skip
    for training, more, alpha, kind in kinds:
        for row in ("S2", "S3", "S4"):
            epsilons = [epsilon for epsilon in TABLE_52[row][0] if epsilon is not None]
            n, sizes = len(epsilons), list(SIZES[: len(epsilons)])
            changes = [f"seed={seed}", "training.rounds=1", *more, f"clients={n}",
                       "network={name: star, latency_s: 0.1, names: null}",
                       f"learning.partition={{name: growing, first: {sizes}}}",
                       noise(alpha, epsilon=epsilons, samples=sizes, noise_scale=kind)]  # fmt: skip
            rounds, measured = played("privacyfl", changes, out)
            about = {"training": training, "alpha": alpha, "noise": kind, "row": row}
            weight = {"epsilon_weight": epsilon_weight(rounds.iloc[-1])}
            for client in range(n):
                own = measured[measured.name == f"test_accuracy_client_{client}"].value.iloc[-1]
                yield {**about, "client": f"{client + 1}", "accuracy": float(own), **weight}
            yield {**about, "client": "none", "accuracy": rounds.test_accuracy.iloc[-1], **weight}


def paired(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Differences of the rows of Table 5.2, seed by seed, and the intervals of their means."""
    rows = rows.fillna({"alpha": 0})
    index, columns = ["training", "client", "seed"], ["alpha", "noise", "row"]
    seeds = rows.pivot(index=index, columns=columns, values="accuracy").sort_index(axis=1)
    alone = seeds.xs("S1", axis=1, level="row").iloc[:, 0]
    found = []
    for alpha, kind in [key for key in seeds.columns.droplevel("row").unique() if key[1]]:
        mine = seeds[(alpha, kind)].assign(S1=alone)
        for better, other in PAIRS:
            for (training, client), values in (mine[better] - mine[other]).groupby(["training", "client"]):
                if (n := values.count()) > 1:
                    width = stats.t.ppf(0.975, n - 1) * values.sem()
                    found.append({"training": training, "alpha": alpha, "noise": kind, "client": client,
                                  "difference": f"{better} - {other}", "accuracy": values.mean(), "seeds": n,
                                  "half_width": width})  # fmt: skip
    return pandas.DataFrame(found)
