"""How strong the comparison with the authors' stored runs is: tests.csv and whole_runs.csv, beside this file.

    python results/paper001/evidence.py

tests.csv has a row for each table and setting: the tests of a mean against the stored runs (each scheme and mark;
Welch's, or Student's where one run is stored), how many are below 0.05, the smallest p and where it is; how many means
lie below the stored ones, and of those at the last two marks; ``detectable``, the median over the tests of the
difference that would have had p = 0.05; the same counts without T = 6, whose stored runs skip other rounds; and, of the
schemes that hardly skip a round, the mean of the last two marks, seed by seed, against the stored runs'. A control
without stored runs of its own is held against those of the setting that it is the control of. Where settings were
chosen by these very stored runs (``fitted``), a test measures the fit, and confirms nothing.

whole_runs.csv has each scheme's paired difference from ``random`` in the mean of all evaluations of a run and in that
of the last five, with 95 % intervals, and how much narrower the first interval is.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
from cells import MARKS, published
from printed import HARDLY
from scipy.stats import ttest_ind
from stored_runs import detectable, far, stored
from tables import LAST

from simfl.experiments.compare.intervals import paired_difference

HERE = Path(__file__).resolve().parent
NAMES = {"3_authors": "Table 3", "3_ablation_200_rounds": "ablation", "4_authors": "Table 4"}
"""Tables, as their files and the page name them."""
FITTED = {"non-IID, shared": "rate, momentum and order of samples"}
"""What was chosen by comparing with the stored runs, and then compared with them; in all other settings:"""
MOMENTUM = "momentum"
CONTROL_OF = {"non-IID, dropout at random": "non-IID, dropout by label"}
NO_T6 = "batch T=6"


def place_of(curves: pandas.DataFrame) -> str:
    """The setting whose stored runs these curves are held against."""
    setting = str(curves.setting.iloc[0])
    return CONTROL_OF.get(setting, setting)


def against_stored(number: int, curves: pandas.DataFrame) -> pandas.DataFrame:
    """Every scheme and mark of one setting: both means, p, and the difference that could have been seen."""
    theirs, rows = stored(number, place_of(curves)), []
    for scheme, group in curves.groupby("scheme", sort=False):
        for mark in MARKS[number]:
            ours = group[group["round"] == mark - 1].test_accuracy
            told = theirs[theirs.scheme == scheme][f"after_{mark}"].dropna()
            if (p := far(ours, told)) is not None:
                rows.append((scheme, mark, ours.mean() - told.mean(), p, detectable(ours, told)))
    return pandas.DataFrame(rows, columns=["scheme", "mark", "difference", "p", "detectable"])


def pooled(number: int, runs: pandas.DataFrame, curves: pandas.DataFrame) -> tuple[float, float]:
    """Schemes that hardly skip, last two marks: the difference of the means, and p over seeds and stored runs.

    A seed's schemes share an initial model and are one observation; stored runs have each their own.
    """
    place = published(number, place_of(curves))
    least = runs.groupby("scheme", sort=False).mean_cardinality.min()
    alike = least[least >= (1 - HARDLY) * place[-1]].index
    marks = [mark for mark in MARKS[number] if (curves["round"] == mark - 1).any()][-2:]
    ours = curves[curves.scheme.isin(alike) & curves["round"].isin([mark - 1 for mark in marks])]
    theirs = stored(number, place_of(curves))
    told = theirs[theirs.scheme.isin(alike)][[f"after_{mark}" for mark in marks]].mean(axis=1)
    seeds = ours.groupby("seed").test_accuracy.mean()
    return seeds.mean() - told.mean(), ttest_ind(seeds, told, equal_var=False).pvalue if len(told) > 1 else np.nan


def whole_runs(curves: pandas.DataFrame) -> pandas.DataFrame:
    """Paired differences from ``random`` over all evaluations and over the last five, of one setting."""
    means = {}
    for scheme, group in curves.groupby("scheme", sort=False):
        table = group.pivot(index="round", columns="seed", values="test_accuracy")
        means[scheme] = (table.mean(), table.tail(LAST).mean())
    rows = []
    for scheme, (whole, last) in means.items():
        if scheme == "random" or len(whole) < 2:
            continue
        seeds = whole.index.intersection(means["random"][0].index)
        gaps = [paired_difference(mine[seeds].to_numpy(), base[seeds].to_numpy())
                for mine, base in zip((whole, last), means["random"], strict=True)]  # fmt: skip
        rows.append({"scheme": scheme, "seeds": len(seeds)} | {
            f"{name}{end}": value for name, gap in zip(("whole", "last"), gaps, strict=True)
            for end, value in (("", gap.estimate), ("_low", gap.lower), ("_high", gap.upper))
        } | {"sharper": gaps[1].half_width / gaps[0].half_width})  # fmt: skip
    return pandas.DataFrame(rows)


def counts(tests: pandas.DataFrame) -> dict[str, object]:
    """Of the tests of one setting, see the head of this file."""
    least, late = tests.loc[tests.p.idxmin()], sorted(tests.mark.unique())[-2:]
    numbers: dict[str, object] = {"smallest_p": least.p, "smallest_at": f"{least.scheme} after {least.mark}",
                                  "detectable": tests.detectable.median()}  # fmt: skip
    for name, chosen in (("", tests), ("without_T6_", tests[tests.scheme != NO_T6])):
        ended = chosen[chosen.mark.isin(late)]
        numbers |= {f"{name}tests": len(chosen), f"{name}below_0.05": int((chosen.p < 0.05).sum()),
                    f"{name}lower": int((chosen.difference < 0).sum()), f"{name}late_tests": len(ended),
                    f"{name}late_lower": int((ended.difference < 0).sum())}  # fmt: skip
    return numbers


def markdown(table: pandas.DataFrame) -> Iterator[str]:
    """The page's table of tests.csv."""
    yield "| setting | fitted | tests | p < 0.05 | smallest p | lower than stored | could have seen, points |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in table.to_dict("records"):
        place = f"{row['smallest_at'].replace('=', ' = ')} rounds"
        yield (
            f"| {NAMES[row['table']]}, {row['setting']} | {row['fitted']} | {row['tests']} | {row['below_0.05']} "
            f"| {row['smallest_p']:.2g} ({place}) | {row['lower']} | {row['detectable']:.2g} |"
        )


def main() -> None:
    summaries, wholes = [], []
    for name in NAMES:
        curves, runs = (pandas.read_csv(HERE / f"{kind}{name}.csv") for kind in ("curves", "runs"))
        for setting, group in curves.groupby("setting", sort=False):
            wholes.append(whole_runs(group).assign(table=name, setting=setting))
            number = int(name[0])
            if published(number, place_of(group)) is not None:
                tests = against_stored(number, group)
                late = pooled(number, runs[runs.setting == setting], group)
                row = {"table": name, "setting": setting, "fitted": FITTED.get(setting, MOMENTUM)}
                summaries.append(row | counts(tests) | {"late_difference": late[0], "late_p": late[1]})
    tests_table = pandas.DataFrame(summaries)
    tests_table.to_csv(HERE / "tests.csv", index=False, float_format="%.4g")
    print(*markdown(tests_table), sep="\n")
    table = pandas.concat(wholes)
    first = ["table", "setting", "scheme", "seeds"]
    table[first + [name for name in table if name not in first]].to_csv(
        HERE / "whole_runs.csv", index=False, float_format="%.4g"
    )


if __name__ == "__main__":
    main()
