"""Tables 2, 3 and 4 of Multi-RoundSecAgg (arXiv 2106.03328) with their curves (Figures 7 and 6), beside this file.

    python results/paper001/tables.py --settings authors [--table 4] [--seeds 5] [--rounds 50] [--jobs 2] [--out DIR]
    python results/paper001/tables.py --settings more_seeds --first-seed 5 --seeds 10
    python results/paper001/tables.py --settings ablation --rounds 200
    python results/paper001/tables.py --settings tuned
    python results/paper001/tables.py --settings reduced
    python results/paper001/tables.py --settings tuned --tune

Runs every setting of cells.py for six schemes and every seed. What is finished is reused and what was interrupted
goes on; ``--shard 1/4`` to ``--shard 4/4`` share the runs between four machines of one folder. Writes, for each
table, runs3_authors.csv (one row a run) and curves3_authors.csv (one row an evaluation), both beside the rows that
they have of other settings and seeds (``--setting IID``, ``--first-seed 3``), so that a table may grow by and by; and
from them table3_authors.csv (accuracy after 100, 200, 500 and 1,000 rounds, MNIST 50, 100 and 200, with 95 %
intervals, and paired differences from random) and table3_authors.svg; alike for 4 and tuned. ``more_seeds``
is Table 3, IID, random and T = 4 only, without a picture, for seeds that had no part in choosing its settings;
``ablation`` is Table 3, IID, with other N and K than 120 and 12; ``reduced`` is Table 2 with a quarter of VGG-11's
channels on CIFAR-10. ``--cost`` says how long that takes.

--tune runs the random scheme only, on a seed of its own, with each learning rate, into tuning.csv. The best
rate of a setting is used for all its six schemes; MNIST IID takes the rate found for MNIST non-IID.
"""

import argparse
from pathlib import Path

import pandas
from cells import CELLS, Cell, marks
from schemes import arguments, play, stem, swept
from tables_drawing import HERE, TITLES, draw
from tables_rows import LAST, curve, row

from simfl.api.result_objects import Result

TUNED = {"tuned": ((3, "IID"), (3, "non-IID"), (4, "non-IID")), "reduced": ((2, "IID"), (2, "non-IID"))}
RATES = (0.1, 0.03, 0.01)
TUNING = {"name": "tune", "seed": 100, "selection": "random"}


def tune(options: argparse.Namespace) -> None:
    file, rows = HERE / "tuning.csv", []
    cells = {(cell.table, cell.setting): cell for cell in CELLS[options.settings]}
    for table, setting in TUNED[options.settings]:
        cell = cells[table, setting]
        runs = swept(cell.file, {**cell.fixed, **TUNING, "training.learning_rate": list(RATES)}, options, 1)
        for rate, result in zip(runs.runs["training.learning_rate"], runs.results(), strict=True):
            ended = curve([result]).tail(LAST).mean().item()
            rows.append({"table": table, "setting": setting, "learning_rate": rate, f"mean_of_last_{LAST}": ended})
    found = pandas.DataFrame(rows)
    if file.exists():
        before = pandas.read_csv(file)
        found = pandas.concat([before[~before.table.isin(found.table)], found])
    found.to_csv(file, index=False, float_format="%.6g")


def told(cell: Cell, played: dict[str, list[Result]]) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """One row a run of a setting, and one row an evaluation."""
    runs, curves = [], []
    for scheme, results in played.items():
        for result in results:
            place = {"setting": cell.setting, "scheme": scheme, "seed": result.summary["seed"]}
            fairness = [name for name in ("fairness_gap", "fairness_gap_unskipped") if name in result.summary]
            extra = {name: result.summary[name] for name in ("digest", "mean_cardinality", *fairness)}
            runs.append(place | {"rounds": len(result.rounds)} | extra)
            accuracy = curve([result]).set_axis(["test_accuracy"], axis=1).reset_index()
            curves.append(accuracy.assign(**place)[[*place, *accuracy]])
    return pandas.DataFrame(runs), pandas.concat(curves)


def added(found: pandas.DataFrame, file: Path, order: list[str]) -> pandas.DataFrame:
    """These rows and those that the file has of other settings, schemes and seeds; as they stand in it afterwards."""
    if file.exists():
        place = ["setting", "scheme", "seed"]
        before = pandas.read_csv(file, dtype={"digest": str})
        played = pandas.MultiIndex.from_frame(found[place])
        found = pandas.concat([before[~pandas.MultiIndex.from_frame(before[place]).isin(played)], found])
    rank = found.setting.map(order.index)
    found = found.assign(rank=rank).sort_values(["rank", "seed"], kind="stable").drop(columns="rank")
    found.to_csv(file, index=False, float_format="%.6g")
    return pandas.read_csv(file, dtype={"digest": str})  # the same figures, whether played at once or in parts


def table(number: int, runs: pandas.DataFrame, curves: pandas.DataFrame) -> pandas.DataFrame:
    """The rows of a table, from all runs and their curves."""
    rows = []
    for setting, of_setting in runs.groupby("setting", sort=False):
        cell = curves[curves.setting == setting]
        accuracies = {
            scheme: group.pivot(index="round", columns="seed", values="test_accuracy")
            for scheme, group in cell.groupby("scheme", sort=False)
        }
        for scheme, group in of_setting.groupby("scheme", sort=False):
            extra = group.drop(columns=["setting", "scheme", "seed", "rounds", "digest"]).mean().to_dict()
            found = row(accuracies[scheme], accuracies["random"], marks(number, group.rounds.min()))
            rows.append({"setting": setting, "scheme": scheme} | found | extra)
    return pandas.DataFrame(rows)


def main() -> None:
    parser = arguments(__doc__, 5, shorter=True)
    parser.add_argument("--settings", choices=CELLS, default="authors")
    parser.add_argument("--table", type=int, choices=TITLES, help="only this table")
    parser.add_argument("--setting", help="only this setting of it, such as IID")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first runs; the others follow")
    parser.add_argument("--cost", action="store_true", help="say how long it takes, and run nothing")
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    if options.tune and options.settings not in TUNED:
        parser.error(f"--tune: its settings are {' and '.join(TUNED)}")
    if options.tune:
        return tune(options)
    settings = {cell.setting for cell in CELLS[options.settings]}
    if options.setting not in (None, *settings):
        parser.error(f"--setting: {options.setting!r} is none of {sorted(settings)}")
    for number in TITLES if options.table is None else (options.table,):
        cells = [cell for cell in CELLS[options.settings] if cell.table == number]
        if not cells:
            continue
        if options.cost:
            minutes = options.seeds * sum(cell.cost(options.rounds) for cell in cells)
            print(
                f"table {number}, {options.settings}: about {minutes / 60:.1f} hours of one core, {options.seeds} seeds"
            )
            continue
        name, order = stem(f"{number}_{options.settings}", options), [cell.setting for cell in cells]
        for cell in cells:
            if options.setting not in (None, cell.setting):
                continue
            played = play(cell.file, cell.schemes, cell.fixed, options)
            if options.shard.of > 1:
                continue
            files = (HERE / f"runs{name}.csv", HERE / f"curves{name}.csv")
            runs, curves = (added(rows, file, order) for rows, file in zip(told(cell, played), files, strict=True))
            table(number, runs, curves).to_csv(HERE / f"table{name}.csv", index=False, float_format="%.6g")
            if options.settings != "more_seeds":  # level.py compares these runs with the stored ones
                draw(curves, number, f"table{name}")


if __name__ == "__main__":
    main()
