"""The n - 1 attack of Mugunthan's thesis (MIT 2022), Figures 2-3 and 2-5: what all clients but one learn of that one.

    python results/oblivious/attack.py [--data adult] [--rounds 1000] [--clients 100] [--out results]

Runs scenarios/oblivious.yaml (executed, with the observer ``collusion``), and the publication's baseline, in which
every client adds a Laplace variable of its own that nobody else knows; ``--data fraud`` in place of the publication's
credit cards on KDD 99 with its rare attacks only. Writes attack.csv or attack_fraud.csv: residuals in variances of a
Laplace variable, and r^2 of the estimated and the actual weight over the rounds, as measured and as the residual
predicts it.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas

from simfl.experiments import runner
from simfl.results.run_files import read_table
from simfl.runs.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "oblivious.yaml"
EPSILON, SAMPLES = 5e-4, 200
DATA = {"adult": ([], 104), "fraud": (["learning.data={name: kddcup99, attacks: rare}"], 118)}
"""Changes of the scenario, and the intercept's place: of all weights it differs most from client to client."""
PREDICTED = {
    "non-oblivious": lambda n: 1.0,
    "naive": lambda n: n - 1,
    "random": lambda n: n - 1,
    "mean": lambda n: (n - 1) * (n + 1) / (2 * n),
    "difference": lambda n: (n - 1) * (3 * n - 2) / n,
    "pooled": lambda n: (n - 1) / n,
}
"""Laplace variables that are left, by strategy."""
PRINTED = {"non-oblivious": 0.894, "naive": 0.164, "random": 0.164, "mean": 0.164, "difference": 0.164}
"""r^2 of the publication; of the oblivious protocol it prints the largest only."""


def errors(changes: list[str], options: argparse.Namespace) -> pandas.DataFrame:
    """One row a round, one column an error."""
    more, weight = DATA[options.data]
    fixed = [f"clients={options.clients}", f"training.rounds={options.rounds}", "privacy.every=0",
             "training.local_steps=10", "training.learning_rate=5",
             f"attacks=[{{name: collusion, weight: {weight}}}]", *more]  # fmt: skip
    folder = run(Scenario.load(SCENARIO, [*fixed, *changes]), options.out, resume=True).path
    return read_table(folder / "attacks.csv").pivot(index="round", columns="name", values="value")


def main() -> None:
    parser = runner.parser(__doc__, costs=False)
    parser.add_argument("--data", choices=list(DATA), default="adult")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=100)
    options = parser.parse_args()
    n = options.clients
    laplace = 2 * (2 / (n * SAMPLES * EPSILON)) ** 2
    oblivious = errors([], options)
    stage = f"privacy.stages=[{{name: output_perturbation, epsilon: {EPSILON}, samples: {SAMPLES}, adds: whole}}]"
    single = errors(["secagg=plain", stage], options)
    printed = PRINTED if options.data == "adult" else {}
    rows = []
    for name, terms in PREDICTED.items():
        found = single if name == "non-oblivious" else oblivious
        column = "naive" if name == "non-oblivious" else name
        spread, estimate = found["actual"].var(), found[f"estimate_{column}"]
        left = found[f"residual_{column}"].mean() / laplace
        rows.append({
            "strategy": name, "clients": n, "rounds": len(found), "laplaces_predicted": terms(n),
            "laplaces_measured": left, "four_standard_errors": 4 * terms(n) * np.sqrt(5 / len(found)),
            "weight_variance_laplaces": spread / laplace,
            "r2_measured": np.corrcoef(found["actual"], estimate)[0, 1] ** 2,
            "r2_predicted": spread / (spread + terms(n) * laplace), "r2_printed": printed.get(name),
        })  # fmt: skip
    table = pandas.DataFrame(rows)
    name = "attack" if options.data == "adult" else f"attack_{options.data}"
    table.to_csv(HERE / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    print(table.to_string())


if __name__ == "__main__":
    main()
