"""Training side of arXiv 2110.02177, section 6: LeNet on MNIST, N=100, K=10, staleness uniform on 0 ... 10.

    python results/fedbuff/paper003.py [--seeds 3] [--out results]

Runs scenarios/paper003_fedbuff.yaml with constant and polynomial staleness and, for comparison, without any
staleness (finished runs are reused); writes paper003.csv (test accuracy every five aggregations) and paper003.svg.
"""

from pathlib import Path

import pandas

from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "paper003_fedbuff.yaml"
SETTINGS = {
    "polynomial, α = 1": [],
    "constant": ["training.staleness=constant"],
    "no staleness": ["training.staleness=constant", "training.arrivals.max=0"],
}


def main() -> None:
    options = runner.parser(__doc__, seeds=3).parse_args()
    runs = {
        (name, seed): Scenario.load(SCENARIO, ["learning.backend=sequential", *overrides, f"seed={seed}"])
        for seed in range(options.seeds)
        for name, overrides in SETTINGS.items()
    }
    curves = []
    for (name, seed), folder in runner.run_all(runs, options, seconds=60).items():
        rounds = Result.open(folder).rounds.dropna(subset="test_accuracy")
        curve = rounds[["round", "staleness_mean", "test_loss", "test_accuracy"]].assign(staleness=name, seed=seed)
        curves.append(curve[["staleness", "seed", "round", "staleness_mean", "test_loss", "test_accuracy"]])
    table = pandas.concat(curves).sort_values(["staleness", "seed", "round"])
    table.to_csv(HERE / "paper003.csv", index=False, lineterminator="\n")
    draw(table)


def draw(table: pandas.DataFrame) -> None:
    """Mean over the seeds as a line, from the lowest to the highest as a band."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.4))
    for name, colour, dash in zip(SETTINGS, ("#d55e00", "#0072b2", "#667080"), ("-", "--", ":"), strict=True):
        curve = table[table["staleness"] == name].groupby("round")["test_accuracy"].agg(["mean", "min", "max"])
        axes.plot(curve.index + 1, curve["mean"], dash, color=colour, linewidth=1.2, label=name)
        axes.fill_between(curve.index + 1, curve["min"], curve["max"], color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="aggregations", ylabel="test accuracy", ylim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(HERE / "paper003.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
