"""The rows of tables.py."""

import pandas

from simfl.api.result_objects import Result
from simfl.experiments.compare.intervals import mean, paired_difference

LAST = 5
"""Evaluations that the mean accuracy at the end is taken over."""


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
    both = ended.index.intersection(than.index)
    difference = paired_difference(ended[both].to_numpy(), than[both].to_numpy())
    return told | {
        "lowest": last.min(),
        "highest": last.max(),
        f"mean_of_last_{LAST}": ended.mean(),
        "minus_random": difference.estimate,
        "minus_random_lower": difference.lower,
        "minus_random_upper": difference.upper,
    }
