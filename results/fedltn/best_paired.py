"""Differences between arms of best.py, paired by seed: high_lenet_best_paired.csv beside this file.

    python results/fedltn/best_paired.py

One row a pair of arms and measure, after the last round, from high_lenet_best.csv: seeds that both have, the mean of
their differences in points and its 95 % interval; ``all`` seeds, and those ``after seed 0``, which had a part in
choosing the rate. Pairs with fewer than two seeds are left out.
"""

import pandas
from arms import HERE, PUBLISHED

from simfl.experiments.compare.intervals import mean

RATE = ", rate 0.002"
PAIRS = (
    ("FedLTN 0.1", "LotteryFL 0.1, step 0.1"),
    ("FedLTN 0.5", "LotteryFL 0.5, step 0.1"),
    ("FedLTN 0.1", "FedAvg"),
    ("FedLTN 0.5", "FedAvg"),
    ("FedLTN 0.9", "FedAvg"),
)
MEASURES = ("best_mean", "trained_mean", "trained_min", "before_mean")


def differences(table: pandas.DataFrame) -> pandas.DataFrame:
    """The rows, of a table that best.py wrote."""
    last = table[table.rounds == table.rounds.max()]
    arms = {arm: runs.set_index("seed")[list(MEASURES)] for arm, runs in last.groupby("arm")}
    rows = []
    for one, other in PAIRS:
        gaps = (arms[one + RATE] - arms[other + RATE]).dropna()
        for which, some in {"all": gaps, "after seed 0": gaps[gaps.index > 0]}.items():
            for measure in MEASURES if len(some) > 1 else ():
                gap = mean(some[measure].tolist())
                rows.append({"arm": one + RATE, "against": other + RATE, "seeds": which, "measure": measure,
                             "count": gap.count, "difference": gap.estimate, "low": gap.lower,
                             "high": gap.upper})  # fmt: skip
    return pandas.DataFrame(rows)


def markdown(paired: pandas.DataFrame) -> str:
    """A table of docs/how-to/personal.md."""
    heads = ("at a rate of 0.002", "seeds", "best so far: mean", "after the last job: mean", "lowest",
             "before a job: mean", "published")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (one, other, which), rows in paired.groupby(["arm", "against", "seeds"], sort=False):
        names = [name.removesuffix(RATE) for name in (one, other)]
        cells = [f"{row.difference:.1f} ({row.low:.1f} to {row.high:.1f})" for row in rows.itertuples()]
        cells.append(f"{PUBLISHED[names[0]][0] - PUBLISHED[names[1].split(',')[0]][0]:.1f}")
        count = f"{rows['count'].iloc[0]}" + ("" if which == "all" else ", without seed 0")
        lines.append(f"| {' − '.join(names)} | {count} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    paired = differences(pandas.read_csv(HERE / "high_lenet_best.csv"))
    paired.to_csv(HERE / "high_lenet_best_paired.csv", index=False, float_format="%.4f")
    print(markdown(pandas.read_csv(HERE / "high_lenet_best_paired.csv")))
