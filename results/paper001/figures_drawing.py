"""The pictures of figures.py."""

from pathlib import Path

import pandas

HERE = Path(__file__).resolve().parent
COLUMNS = {
    "privacy_weak_upper": "Multi-round privacy T (weak)",
    "privacy_semi_strong": "Semi-strong privacy",
    "privacy_strong": "Strong privacy",
    "fairness_gap": "Aggregation fairness gap",
    "mean_cardinality": "Average aggregation cardinality",
}


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
