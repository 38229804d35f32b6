"""The picture of figure8.py."""

from pathlib import Path

import numpy as np
import pandas

HERE = Path(__file__).resolve().parent
POLICIES = {"random": "random", "batch T=2": "batch_partition:T=2", "half T=2": "half_partition:T=2"}
PAPER = {"random": 6.715e-3, "batch T=2": 0.7829}


def draw(table: pandas.DataFrame) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot
    from scipy.stats import t

    figure, axes = pyplot.subplots(1, 4, figsize=(11, 3.3), layout="constrained", sharey=True)
    kinds = [*POLICIES, "pairs of random"]
    colours = ["#000000", "#E69F00", "#56B4E9", "#999999"]
    for axis, ((mode, window), found) in zip(axes.flat, table.groupby(["mode", "window"])):
        for place, (kind, colour) in enumerate(zip(kinds, colours)):
            some = found[found.policy == kind]
            logs = np.log(some.error)
            half = t.ppf(0.975, len(logs) - 1) * logs.std() / len(logs) ** 0.5 if len(logs) > 1 else 0.0
            low, middle, high = np.exp(logs.mean() + np.array([-half, 0, half]))
            axis.bar(place, middle, color=colour, width=0.6, label=kind)
            axis.errorbar(place, middle, [[middle - low], [high - middle]], color="#CC79A7", capsize=3)
            axis.plot(
                place, np.exp(np.log(some.expected).mean()), "_", color="#D55E00", markersize=18, markeredgewidth=2
            )
            if kind in PAPER:
                axis.plot(place, PAPER[kind], "x", color="#0072B2")
        axis.set(title=f"{mode}, {window} rounds", yscale="log", ylim=(1e-3, 1e4))
        axis.set_xticks(range(len(kinds)), kinds, rotation=30, ha="right")
    axes.flat[0].set_ylabel("mean relative squared error")
    about = "geometric mean over seeds, 95 % interval; line: theory with the updates' norms and drift; cross: published"
    figure.suptitle(f"bars: {about}", fontsize=9)
    figure.savefig(HERE / "figure8.svg", metadata={"Date": None})
