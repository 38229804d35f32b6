"""Twelve selection policies on heterogeneous devices: accuracy over time, exact privacy, fairness, clear scalars.

    SIMFL_DATA=FOLDER python results/selection/selection.py mnist [--seeds 5] [--out results]
    SIMFL_DATA=FOLDER python results/selection/selection.py cifar10
    python results/selection/selection.py draw

Runs scenarios/selection.yaml under every policy, five seeds: 60 runs of 15 s on MNIST (200 rounds of a small
perceptron), 60 of 50 s on CIFAR-10 (60 rounds of LeNet); finished runs are used again. Writes beside this file
DATA.csv, one row a policy with means and standard deviations over the seeds, DATA_curves.csv (accuracy over simulated
time, one row an evaluation, mean over the seeds by round) and, from both, selection.svg.
"""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import pandas
from chosen import POLICIES

import simfl
from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.report import style
from simfl.report.saving import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "selection.yaml"
SETTINGS: dict[str, tuple[float, dict[str, object]]] = {
    "mnist": (0.9, {}),
    "cifar10": (0.3, {"learning.data": "cifar10", "learning.model": "lenet5", "training.rounds": 60}),
}
"""Target accuracy, and what differs from the scenario."""
SECONDS = {"mnist": 15, "cifar10": 50}
"""Of one core, a run; about."""

NOTIONS = {"strong": "strong", "semi_strong": "semi_strong", "weak": "weak_lower"}


def measures(result: Result, target: float) -> dict[str, float]:
    """What one run came to."""
    rounds, summary = result.rounds, result.summary
    reached, shares = rounds[rounds["test_accuracy"] >= target], result.participation.sum(axis=0)
    return {
        "time_to_target_s": reached["time_s"].iloc[0] if len(reached) else float("nan"),
        "rounds_to_target": reached["round"].iloc[0] + 1 if len(reached) else float("nan"),
        "test_accuracy": rounds["test_accuracy"].dropna().iloc[-1],
        "time_s": summary["time_s"],
        **{name: rounds[f"privacy_{column}"].dropna().iloc[-1] for name, column in NOTIONS.items()},
        "rank": int(numpy.linalg.matrix_rank(result.participation.toarray())),
        "fairness_gap": summary["fairness_gap"],
        "never_summed": int((shares == 0).sum()),
        "mean_cardinality": summary["mean_cardinality"],
        "skipped": summary["skipped"],
        "bytes": summary["bytes_down"] + summary["bytes_up"],
    }


def play(data: str, options: Namespace) -> None:
    """Writes the table and the curves of one data set."""
    target, overrides = SETTINGS[data]
    runs = {
        (name, seed): runner.scenario(SCENARIO, {"selection": selection, **overrides}, seed)
        for name, selection in POLICIES.items()
        for seed in range(options.seeds)
    }
    folders, rows, curves = runner.run_all(runs, options, SECONDS[data]), [], []
    for name in POLICIES:
        results = [simfl.open(folder) for (known, _), folder in folders.items() if known == name]
        if not results:
            continue
        table = pandas.DataFrame([measures(result, target) for result in results])
        row = {"policy": name, "seeds": len(table), "reached": int(table["time_to_target_s"].notna().sum())}
        row |= runner.spread(table)
        rows.append(row | {"in_clear": "; ".join(results[0].summary["in_clear"])})
        shown = pandas.concat([each.rounds[["round", "time_s", "test_accuracy"]] for each in results])
        mean = shown.groupby("round", as_index=False).mean()
        curves.append(mean[mean["test_accuracy"].notna()].round(4).assign(policy=name))
    pandas.DataFrame(rows).to_csv(HERE / f"{data}.csv", index=False, lineterminator="\n")
    pandas.concat(curves).to_csv(HERE / f"{data}_curves.csv", index=False, lineterminator="\n")


def markdown(table: pandas.DataFrame) -> str:
    """A table of README.md."""
    fastest = table[table["policy"] == "random"]["time_to_target_s"].iloc[0]
    lines = ["| policy | rounds to target | time to target, s | times faster than random | final accuracy | strong "
             "| semi-strong | weak | rank | fairness gap | never summed | clients a round | traffic, GB |",
             "|---" * 13 + "|"]  # fmt: skip
    for row in table.itertuples():
        few = "" if row.reached == row.seeds else f" ({row.reached} of {row.seeds} seeds)"
        faster = "" if few else f"{fastest / row.time_to_target_s:.1f}"
        lines.append(
            f"| {row.policy} | {row.rounds_to_target:.0f}{few} | {row.time_to_target_s:.0f} "
            f"| {faster} | {row.test_accuracy:.3f} | {row.strong:.1f} "
            f"| {row.semi_strong:.1f} | {row.weak:.1f} | {row.rank:.1f} | {row.fairness_gap:.2f} "
            f"| {row.never_summed:.1f} | {row.mean_cardinality:.1f} | {row.bytes / 1e9:.2f} |"
        )
    return "\n".join(lines) + "\n"


def label_points(axes: "Axes", table: pandas.DataFrame) -> None:
    """Writes the policies' names beside their points, upwards from the lowest, so that no two share a line."""
    points = table[table["policy"].isin(POLICIES)].sort_values("time_to_target_s")
    line = axes.get_ylim()[1] / 30
    written: list[tuple[float, float]] = []
    for name, x, y in zip(points["policy"], points["semi_strong"], points["time_to_target_s"], strict=True):
        height = max([y, *(below + line for at, below in written if abs(at - x) < 4)])
        written.append((x, height))
        axes.annotate(name, (x, y), (x + 0.2, height), fontsize=6, va="center")


def draw() -> None:
    """Accuracy over simulated time, and time to the target against the semi-strong guarantee, for each data set."""
    from matplotlib import pyplot

    there = [data for data in SETTINGS if (HERE / f"{data}.csv").exists()]
    with style.settings():
        figure, axes = pyplot.subplots(len(there), 2, figsize=(11, 4 * len(there)), squeeze=False)
        colours = pyplot.get_cmap("tab20")(range(len(POLICIES)))
        for (left, right), data in zip(axes, there, strict=True):
            table, curves = pandas.read_csv(HERE / f"{data}.csv"), pandas.read_csv(HERE / f"{data}_curves.csv")
            for colour, name in zip(colours, POLICIES, strict=True):
                curve, row = curves[curves["policy"] == name], table[table["policy"] == name].iloc[0]
                left.plot(curve["time_s"], curve["test_accuracy"], color=colour, label=name)
                right.plot(row["semi_strong"], row["time_to_target_s"], "o", color=colour)
            left.set(title=data, xscale="log", xlabel="simulated time, s", ylabel="test accuracy")
            left.xaxis.set_major_formatter("{x:g}")
            right.set(xlabel="semi-strong guarantee after the last round",
                      ylabel=f"time to accuracy {SETTINGS[data][0]}, s")  # fmt: skip
            right.set(xlim=(0, 15), ylim=(0, 1.05 * table["time_to_target_s"].max()))
            label_points(right, table)
        axes[0, 0].legend(frameon=False, fontsize=6)
        (HERE / "selection.svg").write_bytes(picture(figure, "svg"))


def main() -> None:
    parser = runner.parser(__doc__, seeds=5)
    parser.add_argument("what", choices=[*SETTINGS, "draw"])
    options = parser.parse_args()
    if options.what != "draw":
        play(options.what, options)
    draw()


if __name__ == "__main__":
    main()
