"""Half partitioning beside batches: accuracy and cardinality at the same T, from results/guarded/guarded.csv.

    python results/theorems/half.py

Writes half.csv beside this file: of each T both policies' expected updates a round and final accuracy, and the
difference of the accuracies with Welch's 95 % interval (the table has means and standard deviations of the seeds);
prints the table of docs/papers/paper002.md.
"""

from pathlib import Path

import numpy as np
import pandas
from scipy.stats import t as student

HERE = Path(__file__).resolve().parent
GUARDED = HERE.parent / "guarded" / "guarded.csv"


def row(batch: pandas.Series, half: pandas.Series) -> dict[str, float]:
    """Of one T; accuracies in per cent."""
    cells = {"T": batch["T"], "seeds": batch.seeds}
    for name, found in (("batch", batch), ("half", half)):
        cells |= {f"{name}_cardinality": found.cardinality_200, f"{name}_accuracy": 100 * found.test_accuracy,
                  f"{name}_deviation": 100 * found.test_accuracy_sd}  # fmt: skip
    a, b = (100**2 * found.test_accuracy_sd**2 / found.seeds for found in (batch, half))
    freedom = (a + b) ** 2 / (a**2 / (batch.seeds - 1) + b**2 / (half.seeds - 1))
    width = student.ppf(0.975, freedom) * np.sqrt(a + b)
    gap = cells["half_accuracy"] - cells["batch_accuracy"]
    return cells | {"difference": gap, "low": gap - width, "high": gap + width}


def table() -> pandas.DataFrame:
    """Every T that both policies were run with."""
    guarded = pandas.read_csv(GUARDED)
    batch, half = (guarded[guarded.policy == name].set_index("T", drop=False)
                   for name in ("batch_partition", "half_partition"))  # fmt: skip
    return pandas.DataFrame([row(batch.loc[t], half.loc[t]) for t in half.index])


def markdown(found: pandas.DataFrame) -> list[str]:
    """The page's rows."""
    return [
        f"| {row['T']:.0f} | {row.batch_cardinality:.1f} | {row.batch_accuracy:.1f} ± {row.batch_deviation:.1f} "
        f"| {row.half_cardinality:.1f} | {row.half_accuracy:.1f} ± {row.half_deviation:.1f} "
        f"| {row.difference:.2f} ({row.low:.2f} to {row.high:.2f}) |".replace("-", "−")
        for _, row in found.iterrows()
    ]


def main() -> None:
    found = table()
    found.to_csv(HERE / "half.csv", index=False, float_format="%.5g")
    print(*markdown(found), sep="\n")


if __name__ == "__main__":
    main()
