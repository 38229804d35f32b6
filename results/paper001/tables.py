"""Tables 3 and 4 of Multi-RoundSecAgg (arXiv 2106.03328) with their curves (Figures 6 and 7), beside this file.

    python results/paper001/tables.py [--seeds 1] [--jobs 2] [--out results]
    python results/paper001/tables.py --tune

Plays scenarios/paper001_cifar10.yaml and scenarios/paper001_mnist.yaml, IID and not, for six schemes and every seed.
What is finished is reused and what was interrupted goes on. Writes tables.csv (test accuracy beside the paper's),
curves.csv (mean over the seeds at every evaluation), table3.svg and table4.svg. One seed: 80 minutes on two cores.

--tune plays the random scheme only, on a seed of its own, with each learning rate, and writes tuning.csv. The best
rate of a setting is used for all its six schemes; MNIST IID takes the rate found for MNIST non-IID.
"""

import argparse
from pathlib import Path

import pandas
from schemes import PAPER, play, swept

from simfl.opening import Result

HERE = Path(__file__).resolve().parent
SETTINGS = {
    (3, "IID"): ("paper001_cifar10.yaml", {}, (64.64, 65.06, 55.70, 65.01, 64.95, 64.80)),
    (3, "non-IID"): (
        "paper001_cifar10.yaml",
        {"learning.partition": "data_sharing", "training.learning_rate": 0.1},
        (45.20, 47.89, 37.74, 46.35, 47.00, 47.21),
    ),
    (4, "IID"): ("paper001_mnist.yaml", {}, (98.21, 98.10, 93.94, 97.72, 98.11, 98.15)),
    (4, "non-IID"): (
        "paper001_mnist.yaml",
        {"learning.partition": "shards:labels_per_client=1"},
        (85.79, 94.04, 75.26, 89.88, 92.51, 94.16),
    ),
}
"""Table and setting: scenario file, its overrides, and the printed accuracies in per cent, one a scheme."""
TITLES = {3: "LeNet, CIFAR-10", 4: "CNN of 1,663,370 parameters, MNIST"}
TUNED = ((3, "IID"), (3, "non-IID"), (4, "non-IID"))
RATES = (0.1, 0.03, 0.01)
TUNING = {"name": "tune", "seed": 100, "selection": "random"}
LAST = 5
"""Evaluations that the mean accuracy at the end is taken over."""


def tune(options: argparse.Namespace) -> None:
    rows = []
    for table, setting in TUNED:
        file, fixed, _ = SETTINGS[table, setting]
        runs = swept(file, fixed | TUNING | {"training.learning_rate": list(RATES)}, options, 1)
        for rate, result in zip(runs.runs["training.learning_rate"], runs.results(), strict=True):
            ended = curve([result]).tail(LAST).mean().item()
            rows.append({"table": table, "setting": setting, "learning_rate": rate, f"mean_of_last_{LAST}": ended})
    pandas.DataFrame(rows).to_csv(HERE / "tuning.csv", index=False, float_format="%.6g")


def curve(results: list[Result]) -> pandas.DataFrame:
    """Test accuracy in per cent, one row an evaluated round, one column a seed."""
    rounds = [result.rounds.set_index("round").test_accuracy.dropna() for result in results]
    return 100 * pandas.concat(rounds, axis=1)


def row(accuracy: pandas.DataFrame, results: list[Result], printed: float) -> dict:
    """One cell of a table: means over the seeds."""
    summaries = pandas.DataFrame([result.summary for result in results])
    return {
        "seeds": len(results),
        "paper": printed,
        "final": accuracy.iloc[-1].mean(),
        "final_lowest": accuracy.iloc[-1].min(),
        "final_highest": accuracy.iloc[-1].max(),
        f"mean_of_last_{LAST}": accuracy.tail(LAST).mean().mean(),
        "best": accuracy.max().mean(),
        "mean_cardinality": summaries.mean_cardinality.mean(),
        "fairness_gap": summaries.fairness_gap.mean(),
    }


def draw(curves: pandas.DataFrame, table: int) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2"]
    dashes = ["-", "--", ":", "-.", "-", "--"]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    chosen = curves[curves.table == table]
    for axis, (setting, panel) in zip(axes, chosen.groupby("setting", sort=False), strict=True):
        for (name, group), colour, dash in zip(panel.groupby("scheme", sort=False), colours, dashes, strict=True):
            axis.plot(group["round"] + 1, group.test_accuracy, dash, color=colour, label=name, linewidth=1.4)
        axis.set(title=f"{TITLES[table]}, {setting}", xlabel="round", ylabel="test accuracy, %")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(HERE / f"table{table}.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    if options.tune:
        return tune(options)
    rows, curves = [], []
    for (table, setting), (file, fixed, printed) in SETTINGS.items():
        played = play(file, PAPER, fixed, options)
        for (scheme, results), value in zip(played.items(), printed, strict=True):
            place, accuracy = {"table": table, "setting": setting, "scheme": scheme}, curve(results)
            rows.append(place | row(accuracy, results, value))
            mean = accuracy.mean(axis=1).rename("test_accuracy").reset_index()
            curves.append(pandas.DataFrame({**place, **mean}))
    pandas.DataFrame(rows).to_csv(HERE / "tables.csv", index=False, float_format="%.6g")
    told = pandas.concat(curves)
    told.to_csv(HERE / "curves.csv", index=False, float_format="%.6g")
    for table in TITLES:
        draw(told, table)


if __name__ == "__main__":
    main()
