"""The authors' stored runs of paper 001, and tests of means against them."""

from pathlib import Path

import numpy as np
import pandas
from cells import published
from scipy.stats import t as student
from scipy.stats import ttest_ind, ttest_ind_from_stats

HERE = Path(__file__).resolve().parent


def stored(number: int, setting: str) -> pandas.DataFrame:
    """The published runs of a setting, one row a run."""
    runs = pandas.read_csv(HERE / "published_runs.csv")
    place = published(number, setting)
    theirs = (runs[["data", "setting", "clients", "k"]] == list(place or [""] * 4)).all(axis=1)
    return runs[theirs]


def far(ours: pandas.Series, told: pandas.Series) -> float | None:
    """p of two means by Welch's test; of one published run by Student's, as a draw of the law of ours."""
    if min(len(ours), len(told)) > 1:
        return ttest_ind(ours, told, equal_var=False).pvalue
    if len(ours) > 1 and len(told) == 1:
        return ttest_ind_from_stats(ours.mean(), ours.std(), len(ours), told.mean(), 0, 1).pvalue
    return None


def detectable(ours: pandas.Series, theirs: pandas.Series) -> float:
    """The difference of two means whose p is 0.05, at these spreads (degrees of freedom: Welch and Satterthwaite)."""
    if len(theirs) == 1:
        return float(student.ppf(0.975, len(ours) - 1) * ours.std() * np.sqrt(1 + 1 / len(ours)))
    a, b = ours.var() / len(ours), theirs.var() / len(theirs)
    if a + b == 0:
        return 0.0
    freedom = (a + b) ** 2 / (a**2 / (len(ours) - 1) + b**2 / (len(theirs) - 1))
    return float(student.ppf(0.975, freedom) * np.sqrt(a + b))
