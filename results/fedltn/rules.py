"""Table 4.3 of the thesis by three rules of reporting, from the stored tables: the page's table.

    python results/fedltn/rules.py

"Last" is the accuracy of the models of the clients' last jobs, "best, at least" the highest mean over the clients that
was measured on the way (a mean of bests is at least the best of means), "global, last" the accuracy of the models that
clients use after the last round, which for FedAvg is the global model.
"""

from collections.abc import Iterator

import pandas
from arms import HERE, PUBLISHED


def rules() -> pandas.DataFrame:
    """One row an arm, in per cent."""
    last, early = (pandas.read_csv(HERE / f"high_lenet{rounds}.csv").set_index("arm") for rounds in ("", "_400_rounds"))
    course = pandas.read_csv(HERE / "high_lenet_course.csv").groupby("arm").trained_mean.max()
    return pandas.DataFrame(
        {
            "last": last.trained_mean,
            "best_at_least": pandas.concat([course, early.trained_mean], axis=1).max(axis=1),
            "global_last": last.before_mean,
            "published": pandas.Series({arm: mean for arm, (mean, *_) in PUBLISHED.items()}),
        }
    ).loc[list(PUBLISHED)]


def markdown() -> Iterator[str]:
    """The page's rows."""
    for arm, row in rules().iterrows():
        yield f"| {arm} | {row['last']:.1f} | {row.best_at_least:.1f} | {row.global_last:.1f} | {row.published:.1f} |"


if __name__ == "__main__":
    print(*markdown(), sep="\n")
