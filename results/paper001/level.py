"""How far ``random`` and T = 4 on CIFAR-10, IID, lie from the authors' stored runs after each mark: level.csv.

    python results/paper001/tables.py --settings more_seeds --first-seed 5 --seeds 10
    python results/paper001/level.py

One row a scheme, a sample of seeds and a mark of Table 3; ``both`` is the mean of the two schemes of a seed, beside the
stored runs of both as if these were independent. The first seeds (runs3_authors.csv) had a part in forming the
question; the further ones (runs3_more_seeds.csv) test it, and both together estimate the difference. Columns: seeds,
the mean accuracy of simfl's runs and of the stored runs in per cent, their difference with its 95 % interval (Welch's,
unequal variances), p, and half of the interval of the stored runs' mean, to which that of the difference tends as seeds
are added: the degrees of freedom fall to those of the stored runs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas
from cells import CELLS, MARKS
from stored_runs import far, stored

from simfl.experiments.compare.intervals import Interval, mean, unpaired_ends

HERE = Path(__file__).resolve().parent
RANDOM, FOUR = CELLS["more_seeds"][0].schemes
SCHEMES = {RANDOM: [RANDOM], FOUR: [FOUR], "both": [RANDOM, FOUR]}


def level(curves: pandas.DataFrame, theirs: pandas.DataFrame) -> list[dict[str, float | None]]:
    """A row for each mark; ``curves``: one row an evaluation of every seed, ``theirs``: one row a stored run."""
    rows = []
    for mark in MARKS[3]:
        ours, told = curves[curves["round"] == mark - 1].test_accuracy, theirs[f"after_{mark}"]
        lower, upper = unpaired_ends(ours.to_numpy(), told.to_numpy())
        rows.append({
            "mark": mark, "seeds": len(ours), "simfl": ours.mean(), "stored_runs": len(told), "stored": told.mean(),
            "difference": ours.mean() - told.mean(), "lower": float(lower), "upper": float(upper),
            "p": far(ours, told), "stored_half_width": mean(told.tolist()).half_width,
        })  # fmt: skip
    return rows


def evaluations(name: str, schemes: Sequence[str]) -> pandas.DataFrame:
    """One row a seed and round: the mean accuracy over the schemes, of the seeds that have them all."""
    rows = pandas.read_csv(HERE / f"curves3_{name}.csv").query("setting == 'IID' and scheme in @schemes")
    grouped = rows.groupby(["seed", "round"]).test_accuracy
    return grouped.mean()[grouped.size() == len(schemes)].reset_index()


def samples(schemes: Sequence[str]) -> dict[str, pandas.DataFrame]:
    """The evaluations of the schemes by the seeds that they are of."""
    first, further = (evaluations(name, schemes) for name in ("authors", "more_seeds"))
    if twice := set(first.seed) & set(further.seed):
        raise SystemExit(f"seeds {sorted(twice)} stand in both curves3_authors.csv and curves3_more_seeds.csv")
    return {"first": first, "further": further, "all": pandas.concat([first, further])}


def markdown(table: pandas.DataFrame) -> Iterator[str]:
    """The page's table: a line for each scheme and mark, the samples beside each other."""
    names = list(table["sample"].unique())
    yield f"| scheme | round | stored runs | {' | '.join(f'{name}: seeds, difference, p' for name in names)} |"
    yield "| --- " * (3 + len(names)) + "|"
    for (scheme, mark), rows in table.groupby(["scheme", "mark"], sort=False):
        cells = []
        for row in rows.itertuples():
            gap = Interval(row.difference, row.lower, row.upper, row.seeds)
            cells.append(f"{row.seeds}: {gap.text()} (p {row.p:.2g})")
        yield f"| {scheme.replace('=', ' = ')} | {mark:,} | {rows.stored.iloc[0]:.1f} | {' | '.join(cells)} |"


def main() -> None:
    theirs, rows = stored(3, "IID"), []
    for scheme, parts in SCHEMES.items():
        for name, curves in samples(parts).items():
            place = {"scheme": scheme, "sample": name}
            rows += [place | row for row in level(curves, theirs[theirs.scheme.isin(parts)])]
    pandas.DataFrame(rows).to_csv(HERE / "level.csv", index=False, float_format="%.4g")
    print(*markdown(pandas.read_csv(HERE / "level.csv")), sep="\n")


if __name__ == "__main__":
    main()
