"""Theorem 2 of Multi-RoundSecAgg (arXiv 2106.03328) beside the loss that is measured, on logistic regression.

    python results/paper001/convergence.py [--seeds 5] [--jobs 2] [--out results]

Runs scenarios/paper001_convergence.yaml for six schemes, with samples dealt at random and sorted by label, at the
rate of the theorem, 2 / (mu (gamma + t)). Writes constants.csv, convergence.csv (the bound, and the measured distance
from the least loss with its 95 % interval, every ten rounds) and convergence.svg. Two minutes on one core.
"""

import argparse

import numpy as np
import pandas
from bound import HERE, SCENARIO, bound, known, rate
from convex import Constants
from schemes import PAPER, arguments

import simfl
from simfl.experiments.compare.intervals import mean

SPLITS = {"IID": "iid", "sorted": "{name: data_sharing, shared: 0}"}
"""Samples dealt at random, and sorted by label: every client holds as many."""


def play(options: argparse.Namespace) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """The constants of every split and seed; bound and measured gap of every split, scheme and round."""
    told, rows = [], []
    names = {choice: scheme for scheme, choice in PAPER.items()}
    plugin = {"plugins": [[str(HERE / "objective.py")]], "metrics": [["objective"]]}
    for split, partition in SPLITS.items():
        gaps: dict[str, list[pandas.Series]] = {scheme: [] for scheme in PAPER}
        bounds: dict[str, list[np.ndarray]] = {scheme: [] for scheme in PAPER}
        for seed in range(options.seeds):
            texts = [f"seed={seed}", f"learning.partition={partition}", "metrics=[objective]"]
            found = known(simfl.load(SCENARIO, texts, plugins=[str(HERE / "objective.py")]))
            numbers = {key: np.mean(getattr(found, key)) for key in Constants.__dataclass_fields__ if key != "best"}
            told.append({"split": split, "seed": seed, **numbers})
            grid = {"selection": list(PAPER.values()), "learning.partition": partition, "seed": seed}
            swept = simfl.sweep(SCENARIO, grid | rate(found) | plugin, jobs=options.jobs, out=options.out)
            if len(swept.failed):
                raise SystemExit(f"failed:\n{swept.failed.error}")
            for choice, result in zip(swept.runs.selection, swept.results(), strict=True):
                scheme = names[choice]
                objective = result.rounds.set_index("round").objective.dropna()
                gaps[scheme].append(objective - found.least)
                bounds[scheme].append(bound(found, result, objective.index.to_numpy() + 1))
        for scheme in PAPER:
            table, theory = pandas.concat(gaps[scheme], axis=1), np.mean(bounds[scheme], axis=0)
            for (t, values), limit in zip(table.iterrows(), theory, strict=True):
                interval = mean(values.to_numpy())
                rows.append({"split": split, "scheme": scheme, "rounds": t + 1, "seeds": len(values), "bound": limit,
                             "measured": interval.estimate, "half_interval": interval.half_width})  # fmt: skip
    return pandas.DataFrame(told), pandas.DataFrame(rows)


def draw(table: pandas.DataFrame) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2"]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for axis, (split, panel) in zip(axes, table.groupby("split", sort=False), strict=True):
        for (scheme, group), colour in zip(panel.groupby("scheme", sort=False), colours, strict=True):
            axis.plot(group.rounds, group.bound, "--", color=colour, linewidth=1)
            axis.plot(group.rounds, group.measured, "-", color=colour, label=scheme, linewidth=1.4)
        axis.set(title=split, xlabel="rounds", xscale="log", yscale="log")
    axes[0].set_ylabel("loss above the least (dashed: Theorem 2)")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(HERE / "convergence.svg", metadata={"Date": None})


def main() -> None:
    told, table = play(arguments(__doc__, 5).parse_args())
    told.to_csv(HERE / "constants.csv", index=False, float_format="%.6g")
    table.to_csv(HERE / "convergence.csv", index=False, float_format="%.6g")
    draw(table)


if __name__ == "__main__":
    main()
