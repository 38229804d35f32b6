"""Table 4.4 of the thesis with LeNet-5: sparse personal models where classes follow a Dirichlet distribution.

    python results/fedltn/dirichlet.py [--seeds 5] [--out results]

Runs scenarios/fedltn.yaml (ten clients of 50 training samples, half of them a round, 50 rounds) with classes in
proportions from Dirichlet(alpha), seed after seed (finished runs are reused), and writes beside this file

    dirichlet.csv    one row an alpha, arm and seed: each client's best accuracy so far of the models that its local
                     trainings left, what the last training left, and the model before training; means over the clients
                     and the lowest client, per cent, on 400 test samples of the client's own classes; megabytes
    dirichlet_paired.csv    FedLTN less LotteryFL
"""

from pathlib import Path

import pandas
from arms import ARMS, BRIEF, HERE, SCENARIO, TABLES
from best import MEASURES, heading, line
from tabulated import sent_mb

import simfl
from simfl.experiments import runner
from simfl.experiments.compare.intervals import paired_difference
from simfl.scenario import Scenario

ALPHAS = (0.5, 0.7)
SAMPLES = 100
"""Of each client, for training and validation in equal parts."""
CHOSEN = ("LotteryFL 0.5", "FedLTN 0.5", "FedLTN 0.9", "FedAvg")
PRINTED = {
    (0.5, "LotteryFL 0.5"): "61.2, 24",
    (0.5, "FedLTN 0.5"): "67.2, 40",
    (0.5, "FedLTN 0.9"): "64.8, 40",
    (0.7, "LotteryFL 0.5"): "54.0, 36",
    (0.7, "FedLTN 0.5"): "56.0, 40",
    (0.7, "FedLTN 0.9"): "55.6, 36",
}
"""Table 4.4: mean over the clients, lowest client, per cent."""
CHANGES = {"learning.evaluate.best": "true", "plugins": f"[{HERE / 'few_samples.py'}]"}


def scenario(alpha: float, arm: str, seed: int) -> Scenario:
    """One run."""
    split = {"learning.partition": f"{{name: few_samples, beta: {alpha}, samples: {SAMPLES}}}"}
    return runner.scenario(SCENARIO, BRIEF | TABLES["low_lenet"] | ARMS[arm] | CHANGES | split, seed)


def row(folder: Path) -> dict[str, float]:
    """What one run comes to."""
    result = simfl.open(folder)
    last = {name: 100 * result.summary[column] for name, column in MEASURES.items()}
    return last | {"megabytes": sent_mb(result.rounds).sum()}


def differences(table: pandas.DataFrame) -> pandas.DataFrame:
    """FedLTN less LotteryFL 0.5 in points, by both rules, paired by seed, with 95 % intervals."""
    rows = []
    for alpha, runs in table.groupby("alpha"):
        for measure in ("best_mean", "trained_mean", "before_mean"):
            accuracy = runs.pivot(index="seed", columns="arm", values=measure)
            for arm in ("FedLTN 0.5", "FedLTN 0.9"):
                both = accuracy.reindex(columns=[arm, "LotteryFL 0.5"]).dropna()
                if both.empty:
                    continue
                gap = paired_difference(both[arm].to_numpy(), both["LotteryFL 0.5"].to_numpy())
                rows.append({"alpha": alpha, "arm": arm, "measure": measure, "seeds": gap.count,
                             "difference": gap.estimate, "low": gap.lower, "high": gap.upper})  # fmt: skip
    return pandas.DataFrame(rows)


def markdown(table: pandas.DataFrame) -> str:
    """A table: means over the seeds, with half of their 95 % intervals."""
    lines = heading("α", "method", published="mean, lowest")
    for (alpha, arm), runs in table.groupby(["alpha", "arm"], sort=False):
        dense = table.megabytes[(table.alpha == alpha) & (table.arm == "FedAvg")].mean()
        lines.append(line(f"{alpha:g}", arm, runs=runs, dense_mb=dense, published=PRINTED.get((alpha, arm), "")))
    return "\n".join(lines) + "\n"


def main() -> None:
    options = runner.parser(__doc__, seeds=5).parse_args()
    runs = {
        (alpha, arm, seed): scenario(alpha, arm, seed)
        for seed in range(options.seeds)
        for alpha in ALPHAS
        for arm in CHOSEN
    }
    folders = runner.run_all(runs, options, seconds=20)
    rows = [
        dict(zip(("alpha", "arm", "seed"), key, strict=True)) | row(folder)
        for key, folder in folders.items()
        if simfl.open(folder).summary.get("diverged_round") is None
    ]
    table = pandas.DataFrame(sorted(rows, key=lambda told: (told["alpha"], CHOSEN.index(told["arm"]))))
    table.to_csv(HERE / "dirichlet.csv", index=False, float_format="%.5g")
    differences(table).to_csv(HERE / "dirichlet_paired.csv", index=False, float_format="%.4f")
    print(markdown(table))


if __name__ == "__main__":
    main()
