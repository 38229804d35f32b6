"""The picture of against_fedavg.py."""

from pathlib import Path

import pandas

HERE = Path(__file__).resolve().parent
TARGET, TARGETS = 0.95, (0.85, 0.90, 0.95)
SHOWN = {"FedAvg, 10 at a time": 2000, "FedBuff, 100 at a time, K=10": 3000}
"""Client updates of the three final runs where fewer than MOST tell enough."""


def draw(curves: pandas.DataFrame) -> None:
    """Accuracy against client updates and against simulated time, one thin line a seed, from curves.csv."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9})
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    styles = zip(
        curves["algorithm"].unique(), ("#0072b2", "#56b4e9", "#d55e00", "#009e73"), ("-", "--", "-", ":"), strict=True
    )
    for name, colour, dash in styles:
        for seed, curve in curves[curves["algorithm"] == name].groupby("seed"):
            for panel, column in zip(panels, ("client_updates", "time_s"), strict=True):
                label = name if seed == 0 else None
                panel.plot(curve[column], curve["test_accuracy"], dash, color=colour, linewidth=1, label=label)
    panels[0].set(xlabel="client updates", ylabel="test accuracy", ylim=(0.6, 1.0))
    panels[1].set(xlabel="simulated time, s", xscale="log")
    for panel in panels:
        panel.axhline(TARGET, color="#999999", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(HERE / "against_fedavg.svg", metadata={"Date": None})
