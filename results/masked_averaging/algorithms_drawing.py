"""The table and the picture of algorithms.py."""

import math
from pathlib import Path

import numpy as np
import pandas
from masked_averaging import LAST

COLOURS = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00"]
DASHES = {"mean": "-", "masked": "--"}
MEASURES = {"accuracy": "test accuracy", "training_accuracy": "accuracy on training samples"}
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "colours": "coloured MNIST"}


PRINTED_ALGORITHMS = ("FedAvg", "FedProx", "SCAFFOLD", "FedAdam", "FedYogi", "FedAvg, no momentum")
PRINTED = {
    ("mnist", "IID"): ("99.1, 99.2", "99.1, 99.2", "99.1, 99.2", "98.7, 98.9", "98.7, 98.9", "99.0, 99.0"),
    ("mnist", "two classes, 90 %"): (
        "98.9, 98.9", "98.8, 98.9", "99.0, 99.0", "98.5, 98.6", "98.5, 98.9", "98.4, 98.6",
    ),
    ("fashion_mnist", "IID"): ("89.1, 90.5", "90.1, 91.4", "90.0, 90.8", "88.6, 90.4", "88.6, 90.0", "88.6, 88.5"),
    ("fashion_mnist", "two classes, 90 %"): (
        "88.1, 88.4", "87.6, 87.7", "87.7, 88.3", "86.8, 87.3", "86.6, 87.5", "87.0, 87.8",
    ),
    ("colours", "two classes, 90 %"): ("85.9, 88.6", "85.6, 90.0", "83.2, 85.6", "87.1, 88.9", "85.3, 88.0"),
}  # fmt: skip
"""Tables 3.1, 3.2 and B.3: mean and mask, of these algorithms."""


def markdown(table: pandas.DataFrame) -> str:
    """The table of algorithms."""
    heads = ("data, clients", "algorithm", "seeds", "mean, masked", "masked − mean", "after half of the rounds: both",
             "published: both")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for case in table.itertuples():
        published = dict(zip(PRINTED_ALGORITHMS, PRINTED.get((case.data, case.partition), ())))
        both, half, gap, seeds = "", "", "", f"{case.seeds}"
        if case.seeds:
            both, half = f"{case.mean:.1f}, {case.masked:.1f}", f"{case.mean_half:.1f}, {case.masked_half:.1f}"
            gap = f"{case.masked_mean:.2f}".replace("-", "−")
        if case.seeds > 2:
            gap += f" ({case.masked_mean_low:.2f} to {case.masked_mean_high:.2f})".replace("-", "−")
        if isinstance(case.diverged, str) and case.diverged:
            seeds += f" (diverged: {case.diverged})"
        clients = f"{NAMES.get(case.data, case.data)}, {case.partition}"
        cells = (clients, case.algorithm, seeds, both, gap, half, published.get(case.algorithm, ""))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def as_accurate(curve: pandas.DataFrame, training_accuracy: float) -> float:
    """The test accuracy with which a curve first reaches an accuracy on training samples; NaN where it does not.

    Between two evaluations that are each more accurate on training samples than all before, it is interpolated.
    """
    records = curve[~curve.training_accuracy.cummax().duplicated()]
    reached = records.training_accuracy.to_numpy()
    if not reached[0] <= training_accuracy <= reached[-1]:
        return math.nan
    return float(np.interp(training_accuracy, reached, records.accuracy))


def compared(curves: pandas.DataFrame) -> pandas.DataFrame:
    """Of coloured MNIST, by algorithm, means over the last five evaluations: both accuracies of both arms, and the test
    accuracy of the mean when it was as accurate on training samples as the masked mean at each of them."""
    rows = {}
    for name, group in curves.groupby("algorithm", sort=False):
        arms = {arm: group[group.arm == arm].sort_values("round") for arm in DASHES}
        rows[name] = {f"{column}_{arm}": curve[column].tail(LAST).mean()
                      for column in MEASURES for arm, curve in arms.items()}  # fmt: skip
        late = [as_accurate(arms["mean"], accuracy) for accuracy in arms["masked"].training_accuracy.tail(LAST)]
        rows[name]["as_accurate"] = float(np.mean(late))
    return pandas.DataFrame.from_dict(rows, orient="index")


def compared_markdown(curves: pandas.DataFrame) -> str:
    """A table of the accuracies on training and test samples."""
    heads = ("algorithm", "on training samples: mean, masked", "on test samples: mean, masked",
             "test accuracy of the mean at the masked mean's accuracy on training samples")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, row in compared(curves).iterrows():
        both = [f"{row[f'{column}_mean']:.1f}, {row[f'{column}_masked']:.1f}"
                for column in ("training_accuracy", "accuracy")]  # fmt: skip
        lines.append(f"| {name} | {both[0]} | {both[1]} | {row.as_accurate:.1f} |")
    return "\n".join(lines) + "\n"


def draw(curves: pandas.DataFrame, file: Path) -> None:
    """Accuracy by round: panels for data and partition, a colour for each algorithm, the masked mean dashed."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    names = curves.algorithm.unique()
    colours = dict(zip(names, COLOURS[: len(names)], strict=True))
    measures = [column for column in ("training_accuracy", "accuracy") if column in curves]
    cases = curves.groupby(["data", "partition"], sort=False)
    panels = [(case, panel, measure) for case, panel in cases for measure in measures]
    rows = -(-len(panels) // 2)
    figure, axes = pyplot.subplots(rows, 2, figsize=(9, 3.2 * rows), layout="constrained", squeeze=False, sharex=True)
    for axis, ((data, partition), panel, measure) in zip(axes.flat, panels):
        for (name, arm), group in panel.groupby(["algorithm", "arm"], sort=False):
            label = {"label": name} if arm == "mean" else {}
            axis.plot(group["round"], group[measure], DASHES[arm], color=colours[name], linewidth=1.2, **label)
        axis.set(title=f"{NAMES.get(data, data)}, {partition}", ylabel=f"{MEASURES[measure]}, %", ylim=(None, 100))
    for axis in axes[-1]:
        axis.set_xlabel("round (dashed: masked mean)")
    shown = {line.get_label(): line for axis in figure.axes for line in axis.get_lines()}  # a panel may lack some
    figure.legend([shown[name] for name in names], names, loc="outside right center", frameon=False)
    figure.savefig(file, metadata={"Date": None})
