"""Differences between arms of best.py, paired by seed: high_lenet_best_paired.csv beside this file.

    python results/fedltn/best_paired.py

One row a pair of arms and measure, after the last round, from high_lenet_best.csv: seeds that both have, the mean of
their differences in points and its 95 % interval; ``all`` seeds and, at the rate 0.002, those ``after seed 0``, which
had a part in choosing it. Pairs with fewer than two seeds are left out.
"""

import pandas
from arms import HERE, PUBLISHED

from simfl.experiments.compare.intervals import mean

DENSE = (("FedLTN 0.1", "FedAvg"), ("FedLTN 0.5", "FedAvg"), ("FedLTN 0.9", "FedAvg"))
SMALL_STEP = (("FedLTN 0.1", "LotteryFL 0.1, step 0.1"), ("FedLTN 0.5", "LotteryFL 0.5, step 0.1"))
LARGE_STEP = (("FedLTN 0.1", "LotteryFL 0.1"), ("FedLTN 0.5", "LotteryFL 0.5"))
PAIRS = {"0.02": (*LARGE_STEP, *SMALL_STEP, *DENSE), "0.002": (*SMALL_STEP, *DENSE)}
"""By rate; LotteryFL with steps of 20 % was run at the first only."""
SUFFIXES = {"0.02": "", "0.002": ", rate 0.002"}
"""Of an arm's name in high_lenet_best.csv."""
MEASURES = ("best_mean", "trained_mean", "trained_min", "before_mean")


def differences(table: pandas.DataFrame) -> pandas.DataFrame:
    """The rows, of a table that best.py wrote."""
    last = table[table.rounds == table.rounds.max()]
    arms = {arm: runs.set_index("seed")[list(MEASURES)] for arm, runs in last.groupby("arm")}
    rows = []
    for rate, one, other in ((rate, *pair) for rate, pairs in PAIRS.items() for pair in pairs):
        named = {"rate": rate, "arm": one, "against": other}
        gaps = (arms[one + SUFFIXES[rate]] - arms[other + SUFFIXES[rate]]).dropna()
        chosen = {"all": gaps} | ({"after seed 0": gaps[gaps.index > 0]} if rate == "0.002" else {})
        for which, some in chosen.items():
            for measure in MEASURES if len(some) > 1 else ():
                gap = mean(some[measure].tolist())
                rows.append(named | {"seeds": which, "measure": measure, "count": gap.count, "difference": gap.estimate,
                                     "low": gap.lower, "high": gap.upper})  # fmt: skip
    return pandas.DataFrame(rows)


def markdown(paired: pandas.DataFrame, rate: str) -> str:
    """A table: the pairs at one rate."""
    heads = (f"at a rate of {rate}", "seeds", "best so far: mean", "after the last job: mean", "lowest",
             "before a job: mean", "published")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    some = paired[paired.rate.astype(float) == float(rate)]
    for (one, other, which), rows in some.groupby(["arm", "against", "seeds"], sort=False):
        cells = [f"{row.difference:.1f} ({row.low:.1f} to {row.high:.1f})" for row in rows.itertuples()]
        cells.append(f"{PUBLISHED[one][0] - PUBLISHED[other.split(',')[0]][0]:.1f}")
        count = f"{rows['count'].iloc[0]}" + ("" if which == "all" else ", without seed 0")
        lines.append(f"| {one} − {other} | {count} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    paired = differences(pandas.read_csv(HERE / "high_lenet_best.csv"))
    paired.to_csv(HERE / "high_lenet_best_paired.csv", index=False, float_format="%.4f")
    for rate in PAIRS:
        print(markdown(pandas.read_csv(HERE / "high_lenet_best_paired.csv"), rate))
