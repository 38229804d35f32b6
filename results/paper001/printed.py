"""The Markdown tables of results/paper001/README.md from the CSV beside this file, and the tests behind its sentences.

    python results/paper001/printed.py [4_authors 3_authors 3_ablation_200_rounds ...]

For each setting of a table: mean accuracy of the stored runs of the authors' public code (published_runs.csv) beside
simfl's with half of its 95 % interval, lowest and highest run at the end, and the paired difference from random; then
every pair of schemes with its paired difference, the mean of the schemes that hardly skip a round, and a test of every
mean against the stored runs (Welch's; where one run is stored, whether it may be a draw of the law of simfl's). Of
4_authors also how many runs lost a digit, in every pair of settings, with Fisher's exact test.
"""

import argparse
from collections.abc import Iterator
from itertools import combinations
from math import isnan

import pandas
from cells import MARKS, published
from scipy.stats import fisher_exact
from stored_runs import HERE, far, stored
from tables import LAST

from simfl.experiments.compare.intervals import mean, paired_difference

HARDLY = 0.05
"""Share of the rounds that a scheme may skip to count as one that hardly skips."""


def signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def between(low: float, high: float, digits: int) -> str:
    """Lowest and highest run; of one run its value."""
    if pandas.isna(low):
        return "–"
    return f"{low:.{digits}f}" + ("" if low == high else f" to {high:.{digits}f}")


def markdown(number: int, table: pandas.DataFrame) -> Iterator[str]:
    """The table of one setting; ``table``: its rows of tableN_SETTINGS.csv."""
    setting = table.setting.iloc[0]
    digits = 1 if setting.startswith("non") else 2
    marks = [mark for mark in MARKS[number] if f"after_{mark}" in table and table[f"after_{mark}"].notna().all()]
    marks = [mark for mark in marks if mark != 200 or marks[-1] == 200]
    theirs = stored(number, setting)
    heads = [name for mark in marks for name in ((f"{mark}: paper", "simfl") if len(theirs) else (f"{mark}",))]
    ranges = ["paper's runs", "simfl's runs"] if len(theirs) else ["runs"]
    columns = [setting, *heads, *ranges, "− random"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for _, row in table.iterrows():
        runs, cells = theirs[theirs.scheme == row.scheme], [row.scheme.replace("=", " = ")]
        for mark in marks:
            half = row[f"after_{mark}_half_interval"]
            spread = "" if pandas.isna(half) else f" ± {half:.{digits}f}"
            cells += [f"{runs[f'after_{mark}'].mean():.{digits}f}" if len(runs) else "–"] * bool(len(theirs))
            cells += [f"{row[f'after_{mark}']:.{digits}f}{spread}"]
        ended = runs[f"after_{marks[-1]}"]
        ends = [(ended.min(), ended.max())] * bool(len(theirs)) + [(row.lowest, row.highest)]
        cells += [between(low, high, digits) for low, high in ends]
        minus = [signed(row[f"minus_random{name}"], digits) for name in ("", "_lower", "_upper")]
        cells.append(
            "" if row.scheme == "random" else f"{minus[0]} ({minus[1]} to {minus[2]})".replace(" (nan to nan)", "")
        )
        yield f"| {' | '.join(cells)} |"


def pairs(curves: pandas.DataFrame) -> Iterator[str]:
    """Paired differences between schemes over the last evaluations, of a setting's curves."""
    ended = {
        scheme: group.pivot(index="round", columns="seed", values="test_accuracy").tail(LAST).mean()
        for scheme, group in curves.groupby("scheme", sort=False)
    }
    for one, other in combinations(ended, 2):
        both = ended[one].index.intersection(ended[other].index)
        if len(both) < 2:
            continue
        found = paired_difference(ended[one][both].to_numpy(), ended[other][both].to_numpy())
        verdict = "excludes zero" if found.lower * found.upper > 0 else "includes zero"
        yield f"{one} − {other}: {found.estimate:.3f} ({found.lower:.3f} to {found.upper:.3f}), {verdict}"


def tested(number: int, curves: pandas.DataFrame) -> Iterator[tuple[float, str]]:
    """p of every scheme and mark against the published runs, where there are enough."""
    setting = curves.setting.iloc[0]
    theirs = stored(number, setting)
    for scheme, group in curves.groupby("scheme", sort=False):
        for mark in MARKS[number]:
            ours = group[group["round"] == mark - 1].test_accuracy
            told = theirs[theirs.scheme == scheme][f"after_{mark}"].dropna()
            p = far(ours, told)
            if p is not None:
                yield p, f"{setting}, {scheme}, {mark}: {ours.mean():.2f} against {told.mean():.2f}, p {p:.3f}"


def level(number: int, runs: pandas.DataFrame, curves: pandas.DataFrame) -> Iterator[str]:
    """Mean of the schemes that hardly skip a round, over the seeds, beside that of their published runs."""
    place = published(number, runs.setting.iloc[0])
    if place is None:
        return
    theirs, cardinality = stored(number, runs.setting.iloc[0]), runs.groupby("scheme", sort=False).mean_cardinality
    alike = [scheme for scheme, least in cardinality.min().items() if least >= (1 - HARDLY) * place[-1]]
    ours, theirs = (found[found.scheme.isin(alike)] for found in (curves, theirs))
    for mark in MARKS[number]:
        seeds = ours[ours["round"] == mark - 1].groupby("seed").test_accuracy.mean()
        told = theirs[f"after_{mark}"].dropna()
        if len(seeds) and len(told):
            each = ", ".join(f"{value:.1f}" for value in seeds)
            half = mean(seeds.to_numpy()).half_width
            spread = "" if isnan(half) else f" ± {half:.2f}"
            here = f"{', '.join(alike)}, {mark}: {seeds.mean():.2f}{spread} (seeds {each})"
            yield f"{here}, {len(told)} published runs {told.mean():.2f}"


def lost(digits: pandas.DataFrame) -> Iterator[str]:
    """How many runs lost a digit in two settings, of their common schemes but partition; ``digits``: one row a run."""
    told = digits[digits.scheme != "partition"].assign(has=digits.lost.notna())
    for (one, here), (other, there) in combinations(told.groupby("setting", sort=False), 2):
        both = [here[here.scheme.isin(there.scheme)].has, there[there.scheme.isin(here.scheme)].has]
        p = fisher_exact([[has.sum(), (~has).sum()] for has in both]).pvalue
        counts = [f"{has.sum()} of {len(has)} in {setting}" for has, setting in zip(both, (one, other), strict=True)]
        yield f"runs that lost a digit: {'; '.join(counts)}; p {p:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="names after 'table', such as 4_authors; all of them if none")
    names = parser.parse_args().tables or sorted(
        file.stem.removeprefix("table") for file in HERE.glob("table[2-4]_*.csv")
    )
    for name in names:
        table, runs, curves = (pandas.read_csv(HERE / f"{kind}{name}.csv") for kind in ("table", "runs", "curves"))
        number, tests = int(name[0]), []
        for setting, rows in table.groupby("setting", sort=False):
            played, of_setting = (found[found.setting == setting] for found in (runs, curves))
            told = (*markdown(number, rows), "", *pairs(of_setting), "", *level(number, played, of_setting))
            print(f"\n{name}, {setting}\n", *told, sep="\n")
            tests += tested(number, of_setting)
        if (digits := HERE / f"digits{name}.csv").exists():
            print("", *lost(pandas.read_csv(digits, dtype={"lost": str})), sep="\n")
        print("", *(line for _, line in sorted(tests)), sep="\n")


if __name__ == "__main__":
    main()
