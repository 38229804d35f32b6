"""How far ``random`` on CIFAR-10, IID, lies from the authors' stored runs after each mark: level.csv, beside this file.

    python results/paper001/tables.py --settings more_seeds --first-seed 5 --seeds 10
    python results/paper001/level.py

One row a sample of seeds and a mark of Table 3. The first seeds (runs3_authors.csv) had a part in forming the question;
the further ones (runs3_more_seeds.csv) test it, and both together estimate the difference. Columns: seeds, the mean
accuracy of simfl's runs and of the stored runs in per cent, their difference with its 95 % interval (Welch's, unequal
variances), p, and half of the interval of the stored runs' mean, which that of the difference comes near as seeds are
added: the degrees of freedom fall to those of the stored runs.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas
from cells import MARKS
from stored_runs import far, stored

from simfl.experiments.compare.intervals import Interval, mean, unpaired_difference

HERE = Path(__file__).resolve().parent
SCHEME = "random"


def level(curves: pandas.DataFrame, theirs: pandas.DataFrame) -> list[dict[str, float | None]]:
    """A row for each mark; ``curves``: one row an evaluation of every seed, ``theirs``: one row a stored run."""
    rows = []
    for mark in MARKS[3]:
        ours, told = curves[curves["round"] == mark - 1].test_accuracy, theirs[f"after_{mark}"]
        gap = unpaired_difference(ours.tolist(), told.tolist())
        rows.append({
            "mark": mark, "seeds": len(ours), "simfl": ours.mean(), "stored_runs": len(told), "stored": told.mean(),
            "difference": gap.estimate, "lower": gap.lower, "upper": gap.upper,
            "p": far(ours, told), "stored_half_width": mean(told.tolist()).half_width,
        })  # fmt: skip
    return rows


def samples() -> dict[str, pandas.DataFrame]:
    """The evaluations of ``random`` by the seeds that they are of."""
    first, further = (
        pandas.read_csv(HERE / f"curves3_{name}.csv").query("setting == 'IID' and scheme == @SCHEME")
        for name in ("authors", "more_seeds")
    )
    if twice := set(first.seed) & set(further.seed):
        raise SystemExit(f"seeds {sorted(twice)} stand in both curves3_authors.csv and curves3_more_seeds.csv")
    return {"first": first, "further": further, "all": pandas.concat([first, further])}


def markdown(table: pandas.DataFrame) -> Iterator[str]:
    """The page's table: a line for each mark, the samples beside each other."""
    names = list(table["sample"].unique())
    heads = [f"{name}: {table[table['sample'] == name].seeds.iloc[0]} seeds, p" for name in names]
    yield f"| round | stored runs | {' | '.join(heads)} |"
    yield "| --- " * (2 + len(names)) + "|"
    for mark, rows in table.groupby("mark", sort=False):
        cells = []
        for row in rows.itertuples():
            gap = Interval(row.difference, row.lower, row.upper, row.seeds)
            cells.append(f"{gap.text()} (p {row.p:.2g})")
        yield f"| {mark:,} | {rows.stored.iloc[0]:.1f} | {' | '.join(cells)} |"


def main() -> None:
    theirs = stored(3, "IID")
    theirs = theirs[theirs.scheme == SCHEME]
    table = pandas.DataFrame(
        [{"sample": name} | row for name, curves in samples().items() for row in level(curves, theirs)]
    )
    table.to_csv(HERE / "level.csv", index=False, float_format="%.4g")
    print(*markdown(pandas.read_csv(HERE / "level.csv")), sep="\n")


if __name__ == "__main__":
    main()
