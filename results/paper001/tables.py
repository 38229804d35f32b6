"""Tables 3 and 4 of Multi-RoundSecAgg (arXiv 2106.03328) with their curves (Figures 7 and 6), beside this file.

    python results/paper001/tables.py --settings authors [--table 4] [--seeds 5] [--rounds 50] [--jobs 2] [--out DIR]
    python results/paper001/tables.py --settings tuned
    python results/paper001/tables.py --tune

Plays every setting of cells.py for six schemes and every seed. What is finished is reused and what was interrupted
goes on; ``--shard 1/4`` to ``--shard 4/4`` share the runs between four machines of one folder. Writes, for each
table, table3_authors.csv (accuracy after 100, 200, 500 and 1,000 rounds, MNIST 50, 100 and 200, with 95 % intervals,
and paired differences from random), curves3_authors.csv and table3_authors.svg, and alike for 4 and tuned. ``--cost``
says how long that takes.

--tune plays the random scheme only, on a seed of its own, with each learning rate, and writes tuning.csv. The best
rate of a setting is used for all its six schemes; MNIST IID takes the rate found for MNIST non-IID.
"""

import argparse
from pathlib import Path

import pandas
from cells import CELLS, Cell, marks
from schemes import arguments, play, stem, swept

from simfl.compare.intervals import mean, paired
from simfl.opening import Result

HERE = Path(__file__).resolve().parent
TITLES = {3: "CIFAR-10", 4: "MNIST"}
TUNED = ((3, "IID"), (3, "non-IID"), (4, "non-IID"))
RATES = (0.1, 0.03, 0.01)
TUNING = {"name": "tune", "seed": 100, "selection": "random"}
LAST = 5
"""Evaluations that the mean accuracy at the end is taken over."""


def tune(options: argparse.Namespace) -> None:
    rows = []
    cells = {(cell.table, cell.setting): cell for cell in CELLS["tuned"]}
    for table, setting in TUNED:
        cell = cells[table, setting]
        runs = swept(cell.file, {**cell.fixed, **TUNING, "training.learning_rate": list(RATES)}, options, 1)
        for rate, result in zip(runs.runs["training.learning_rate"], runs.results(), strict=True):
            ended = curve([result]).tail(LAST).mean().item()
            rows.append({"table": table, "setting": setting, "learning_rate": rate, f"mean_of_last_{LAST}": ended})
    pandas.DataFrame(rows).to_csv(HERE / "tuning.csv", index=False, float_format="%.6g")


def curve(results: list[Result]) -> pandas.DataFrame:
    """Test accuracy in per cent, one row an evaluated round, one column a seed."""
    rounds = [result.rounds.set_index("round").test_accuracy.dropna() for result in results]
    found = 100 * pandas.concat(rounds, axis=1)
    found.columns = [result.summary["seed"] for result in results]
    return found


def row(accuracy: pandas.DataFrame, base: pandas.DataFrame, after: list[int]) -> dict:
    """One cell of a table, from the accuracies of a scheme and of random: one row a round, one column a seed each."""
    told: dict = {"seeds": accuracy.shape[1]}
    for mark in after:
        found = mean(accuracy.loc[mark - 1].to_numpy())
        told |= {f"after_{mark}": found.estimate, f"after_{mark}_half_interval": found.half_width}
    last = accuracy.iloc[-1]
    ended, than = accuracy.tail(LAST).mean(), base.tail(LAST).mean()
    difference = paired(ended.to_numpy(), than[ended.index].to_numpy())
    return told | {
        "lowest": last.min(),
        "highest": last.max(),
        f"mean_of_last_{LAST}": ended.mean(),
        "minus_random": difference.estimate,
        "minus_random_lower": difference.lower,
        "minus_random_upper": difference.upper,
    }


def table(cells: list[Cell], options: argparse.Namespace) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """The rows of a table and the mean curves, from runs."""
    rows, curves = [], []
    for cell in cells:
        played = play(cell.file, cell.schemes, cell.fixed, options)
        if options.shard != "1/1":
            continue
        accuracies = {scheme: curve(results) for scheme, results in played.items()}
        for scheme, results in played.items():
            place, accuracy = {"setting": cell.setting, "scheme": scheme}, accuracies[scheme]
            summaries = pandas.DataFrame([result.summary for result in results])
            fairness = [name for name in ("fairness_gap", "fairness_gap_unskipped") if name in summaries]
            extra = {name: summaries[name].mean() for name in ("mean_cardinality", *fairness)}
            told = row(accuracy, accuracies["random"], marks(cell.table, len(results[0].rounds)))
            rows.append(place | told | extra)
            average = accuracy.mean(axis=1).rename("test_accuracy").reset_index()
            curves.append(pandas.DataFrame({**place, **average}))
    return pandas.DataFrame(rows), pandas.concat(curves) if curves else pandas.DataFrame()


def draw(curves: pandas.DataFrame, number: int, file: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2"]
    dashes = ["-", "--", ":", "-.", "-", "--"]
    panels = list(curves.groupby("setting", sort=False))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(2 + 4 * len(panels), 3.6), layout="constrained")
    for axis, (setting, panel) in zip(axes, panels, strict=True):
        for (name, group), colour, dash in zip(panel.groupby("scheme", sort=False), colours, dashes, strict=True):
            axis.plot(group["round"] + 1, group.test_accuracy, dash, color=colour, label=name, linewidth=1.4)
        axis.set(title=f"{TITLES[number]}, {setting}", xlabel="round", ylabel="test accuracy, %")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(HERE / f"{file}.svg", metadata={"Date": None})


def main() -> None:
    parser = arguments(__doc__, 5, shorter=True)
    parser.add_argument("--settings", choices=CELLS, default="authors")
    parser.add_argument("--table", type=int, choices=TITLES, help="only this table")
    parser.add_argument("--cost", action="store_true", help="say how long it takes, and play nothing")
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    if options.tune:
        return tune(options)
    for number in TITLES if options.table is None else (options.table,):
        cells = [cell for cell in CELLS[options.settings] if cell.table == number]
        if options.cost:
            minutes = options.seeds * sum(cell.cost(options.rounds) for cell in cells)
            print(
                f"table {number}, {options.settings}: about {minutes / 60:.1f} hours of one core, {options.seeds} seeds"
            )
            continue
        rows, curves = table(cells, options)
        if options.shard != "1/1":
            continue
        name = stem(f"{number}_{options.settings}", options)
        rows.to_csv(HERE / f"table{name}.csv", index=False, float_format="%.6g")
        curves.to_csv(HERE / f"curves{name}.csv", index=False, float_format="%.6g")
        draw(curves, number, f"table{name}")


if __name__ == "__main__":
    main()
