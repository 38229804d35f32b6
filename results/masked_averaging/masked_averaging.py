"""Gradient-masked against plain averaging on non-IID Fashion-MNIST, written beside this file.

    python results/masked_averaging/masked_averaging.py [--seeds 5] [--jobs 2] [--out results]

Plays scenarios/masked_averaging.yaml with both aggregates under the same draws, for some learning rates of clients
and server (finished runs are reused). Writes masked_averaging.csv (test accuracy over the last ten evaluations, as the
thesis averages the last ten rounds, and the paired difference with its 95 % interval) and masked_averaging.svg.
"""

import argparse
from pathlib import Path

import pandas

import simfl
from simfl.compare.intervals import paired

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "masked_averaging.yaml"
AGGREGATES = ("mean", "masked:tau=0.4")
RATES = ((0.01, 1.0), (0.03, 1.0), (0.03, 1.5))
"""Learning rates of the clients and of the server."""

LAST = 10


def curves(rate: float, server_rate: float, options: argparse.Namespace) -> dict[str, pandas.DataFrame]:
    """Test accuracy in per cent of each aggregate: one row an evaluated round, one column a seed."""
    rates = {"training.learning_rate": rate, "training.server_learning_rate": server_rate}
    grid = {"training.aggregate": list(AGGREGATES), **rates}
    swept = simfl.sweep(SCENARIO, grid, replications=options.seeds, jobs=options.jobs, out=options.out)
    if len(swept.failed):
        raise SystemExit(f"failed:\n{swept.failed.error}")
    found: dict[str, list] = {aggregate: [] for aggregate in AGGREGATES}
    for aggregate, result in zip(swept.runs["training.aggregate"], swept.results(), strict=True):
        found[aggregate].append(100 * result.rounds.set_index("round").test_accuracy.dropna())
    return {aggregate: pandas.concat(series, axis=1) for aggregate, series in found.items()}


def row(rate: float, server_rate: float, found: dict[str, pandas.DataFrame]) -> dict[str, float]:
    plain, masked = (found[aggregate].tail(LAST).mean().to_numpy() for aggregate in AGGREGATES)
    gap = paired(masked, plain)
    return {
        "learning_rate": rate,
        "server_learning_rate": server_rate,
        "seeds": len(plain),
        "mean": plain.mean(),
        "masked": masked.mean(),
        "difference": gap.estimate,
        "lower": gap.lower,
        "upper": gap.upper,
    }


def draw(found: dict[tuple[float, float], dict[str, pandas.DataFrame]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(found), figsize=(10, 3.4), sharey=True, layout="constrained")
    for axis, (rates, aggregates) in zip(axes, found.items(), strict=True):
        for (aggregate, table), colour, dash in zip(aggregates.items(), ("#000000", "#D55E00"), "-:", strict=False):
            axis.plot(table.index + 1, table.mean(axis=1), dash, color=colour, label=aggregate, linewidth=1.4)
        axis.set(title="rates {} and {}".format(*rates), xlabel=f"round (mean of {table.shape[1]} seeds)")
    axes[0].set_ylabel("test accuracy, %")
    axes[-1].legend()
    figure.savefig(HERE / "masked_averaging.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    found = {rates: curves(*rates, options) for rates in RATES}
    rows = [row(*rates, tables) for rates, tables in found.items()]
    pandas.DataFrame(rows).to_csv(HERE / "masked_averaging.csv", index=False, float_format="%.6g")
    draw(found)


if __name__ == "__main__":
    main()
