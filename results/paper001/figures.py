"""Figures 2, 3 and 4 of Multi-RoundSecAgg (arXiv 2106.03328), as CSV and SVG beside this file.

    python results/paper001/figures.py [--seeds 20] [--jobs 2] [--out results]

Plays scenarios/paper001_privacy.yaml for every scheme and seed (finished runs are reused), then draws
figure3.svg from figure3.csv (privacy, fairness gap and cardinality against rounds, mean over the seeds) and
tradeoff.svg from tradeoff.csv (T against C: every divisor T, theory as lines, simulation as points).
"""

import argparse
from pathlib import Path

import numpy as np
import pandas
from schemes import PAPER, play

from simfl.opening import Result

HERE = Path(__file__).resolve().parent
SCENARIO = "paper001_privacy.yaml"
SCHEMES = PAPER | {
    "batch T=2": "batch_partition:T=2",
    "half T=4": "half_partition:T=4",
    "half T=2": "half_partition:T=2",
}
EXTRA = {"half T=12": "half_partition:T=12", "half T=6": "half_partition:T=6"}
COLUMNS = {
    "privacy_weak_upper": "Multi-round privacy T (weak)",
    "privacy_semi_strong": "Semi-strong privacy",
    "privacy_strong": "Strong privacy",
    "fairness_gap": "Aggregation fairness gap",
    "mean_cardinality": "Average aggregation cardinality",
}


def figure3(runs: dict[str, list[Result]]) -> pandas.DataFrame:
    """Mean over seeds of every metric, one row a scheme and round; ``exact`` = weak intervals that are one value."""
    rows = []
    for name, results in runs.items():
        frames = [result.rounds for result in results]
        table = {"scheme": name, "round": frames[0]["round"], "seeds": len(frames)}
        for column in ("privacy_weak_lower", *COLUMNS):
            table[column] = np.nanmean([frame[column].ffill() for frame in frames], axis=0)
        table["exact"] = np.mean([frame.privacy_weak_lower == frame.privacy_weak_upper for frame in frames], axis=0)
        rows.append(pandas.DataFrame(table))
    return pandas.concat(rows)


def tradeoff(runs: dict[str, list[Result]]) -> pandas.DataFrame:
    """For every scheme its guarantee and its cardinality: theory and simulation, mean over the seeds."""
    rows = []
    for name, results in runs.items():
        simulated = np.array([result.summary["mean_cardinality"] for result in results])
        expected = np.array([result.summary["expected_cardinality"] for result in results])
        policy = results[0].scenario.selection
        rows.append(
            {
                "scheme": name,
                "family": {"half_partition": "half"}.get(policy.name, "batch"),
                "T": policy.unit_size,
                "expected_cardinality": expected.mean(),
                "simulated_cardinality": simulated.mean(),
                "standard_error": simulated.std(ddof=1) / len(simulated) ** 0.5,
                "seeds": len(simulated),
            }
        )
    return pandas.DataFrame(rows)


def draw(curves: pandas.DataFrame, points: pandas.DataFrame) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#999999", "#8B5A2B"]
    dashes = ["-", "--", ":", "-.", "-", "--", ":", "-.", "-"]
    figure, axes = pyplot.subplots(2, 3, figsize=(11, 6.2), layout="constrained")
    for axis, (column, title) in zip(axes.flat, COLUMNS.items()):
        for (name, group), colour, dash in zip(curves.groupby("scheme", sort=False), colours, dashes):
            axis.plot(group["round"] + 1, group[column], dash, color=colour, label=name, linewidth=1.4)
        axis.set(title=title, xlabel="round")
    handles = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].axis("off")
    axes.flat[-1].legend(*handles, loc="center", frameon=False, title=f"N=120, K=12, {curves.seeds.max()} seeds")
    figure.savefig(HERE / "figure3.svg", metadata={"Date": None})

    figure, axis = pyplot.subplots(figsize=(5.6, 3.8), layout="constrained")
    for (name, group), colour, marker in zip(points.groupby("family"), ("#0072B2", "#D55E00"), ("o", "s")):
        group = group.sort_values("T")
        axis.plot(group["T"], group.expected_cardinality, "-", color=colour, label=f"{name}, theory")
        axis.errorbar(group["T"], group.simulated_cardinality, 2 * group.standard_error, fmt=marker, color=colour,
                      capsize=3, label=f"{name}, simulated (2 s.e.)")  # fmt: skip
    axis.set(xlabel="multi-round privacy guarantee T", ylabel="average aggregation cardinality C", ylim=(0, 12.5))
    axis.set_xticks([1, 2, 3, 4, 6, 12])
    axis.legend()
    figure.savefig(HERE / "tradeoff.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    runs = play(SCENARIO, SCHEMES, {}, options)
    curves = figure3(runs)
    curves.to_csv(HERE / "figure3.csv", index=False, float_format="%.6g")
    extra = play(SCENARIO, EXTRA, {"privacy": "none"}, options)
    everyone = {name: results for name, results in (runs | extra).items() if name != "weighted"}
    points = tradeoff(everyone)
    points.to_csv(HERE / "tradeoff.csv", index=False, float_format="%.6g")
    draw(curves, points)


if __name__ == "__main__":
    main()
