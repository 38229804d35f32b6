"""The picture of a table of tables.py."""

from pathlib import Path

import pandas
from schemes import AUTHORS

HERE = Path(__file__).resolve().parent
TITLES = {2: "CIFAR-10, narrow VGG-11", 3: "CIFAR-10", 4: "MNIST"}


def draw(curves: pandas.DataFrame, number: int, file: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2"]
    dashes = ["-", "--", ":", "-.", "-", "--"]
    styles = dict(zip(AUTHORS, zip(dashes, colours, strict=True), strict=True))
    panels = list(curves.groupby("setting", sort=False))
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(2 + 4 * columns, 3.6 * rows), layout="constrained", squeeze=False
    )
    for unused in axes.flat[len(panels) :]:
        unused.remove()
    for axis, (setting, panel) in zip(axes.flat, panels):
        for name, group in panel.groupby("scheme", sort=False):
            average, (dash, colour) = group.groupby("round").test_accuracy.mean(), styles[name]
            axis.plot(average.index + 1, average, dash, color=colour, label=name, linewidth=1.4)
        axis.set(title=f"{TITLES[number]}, {setting}", xlabel="round", ylabel="test accuracy, %")
    named = {line.get_label(): line for axis in figure.axes for line in axis.get_lines()}  # a panel may lack schemes
    names = [name for name in styles if name in named]
    figure.legend([named[name] for name in names], names, loc="outside right center", frameon=False)
    figure.savefig(HERE / f"{file}.svg", metadata={"Date": None})
