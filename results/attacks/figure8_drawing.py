"""The picture of figure8.py, and the table of a model that was trained for more rounds."""

from pathlib import Path

import numpy as np
import pandas

HERE = Path(__file__).resolve().parent
POLICIES = {"random": "random", "batch T=2": "batch_partition:T=2", "half T=2": "half_partition:T=2"}
PAPER = {"random": 6.715e-3, "batch T=2": 0.7829}


def markdown(first: pandas.DataFrame, later: pandas.DataFrame, start: int) -> str:
    """A table: errors, and in brackets theory's, after 150 and after more rounds.

    Geometric means over the seeds of ``later``.
    """
    after = ("after 150 rounds", f"after {start:,}")
    heads = ("window", "policy", *(f"{mode}: {each}" for mode in ("frozen", "live") for each in after))
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    cases = ["window", "policy", "mode"]
    first = first[first.seed.isin(later.seed)]
    means = [
        np.exp(np.log(each.set_index(cases)[["error", "expected"]]).groupby(cases).mean()) for each in (first, later)
    ]
    for window, policy in ((w, p) for w in (50, 40) for p in (*POLICIES, "pairs of random")):
        pairs = (each.loc[(window, policy, mode)] for mode in ("frozen", "live") for each in means)
        cells = ("{} ({})".format(*(f"{v:,.0f}" if v >= 10 else f"{v:.2f}" for v in pair)) for pair in pairs)
        lines.append(f"| {window} rounds | {policy} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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
