"""How many rounds the published runs skipped, beside how many their scheme has to skip.

    python results/paper001/skipped.py

A round that no batch is available for changes nothing, so that the test accuracy after it is exactly that before it.
published_runs.csv counts such rounds in every accuracy curve of the authors' public code (``unchanged``; a trained
round leaves the accuracy as it was, too, once in a hundred on CIFAR-10 and once in twenty on MNIST, IID). Writes
skipped.csv: these counts, and the mean and the central 99.8 % of the number of skipped rounds by Theorem 1, over the
draws of the clients' dropout probabilities and over the rounds; and what the (longest) runs of tables.py
skipped, of ``simfl_rounds``.
"""

from pathlib import Path

import numpy as np
import pandas
from cells import dropout_by_label, published, unit

from simfl.selection.theory.expected_cardinality import expected_cardinality
from simfl.selection.theory.families import DisjointUnits

HERE = Path(__file__).resolve().parent
PLACE = ["data", "setting", "clients", "k", "scheme"]
DRAWS = 2000
LEVELS = (0.001, 0.999)


def probability(clients: int, k: int, size: int, dropout: np.ndarray) -> float:
    """That a round is skipped; ``dropout`` has a probability a client."""
    return min(max(1 - expected_cardinality(DisjointUnits(clients, k, size), dropout) / k, 0), 1)


def expected(clients: int, k: int, size: int, rounds: int, by_label: bool) -> tuple[float, float, float]:
    """Mean and central 99.8 % of the number of skipped rounds; NaN where the batches do not fit."""
    if k % size or clients % size:
        return (np.nan,) * 3
    rng = np.random.Generator(np.random.Philox(2))
    rates = np.array(dropout_by_label()) if by_label else np.arange(1, 6) / 10
    draws = [rng.permutation(rates) if by_label else rng.choice(rates, clients) for _ in range(DRAWS)]
    skipped = rng.binomial(rounds, [probability(clients, k, size, dropout) for dropout in draws])
    return (skipped.mean(), *np.quantile(skipped, LEVELS))


def ours() -> pandas.DataFrame:
    """Skipped rounds of simfl's runs, one row a run that stands beside published ones."""
    rows = []
    for file in sorted(HERE.glob("runs[34]_a*.csv")):
        for run in pandas.read_csv(file).itertuples():
            if place := published(int(file.stem[4]), run.setting):
                skipped = round(run.rounds * (1 - run.mean_cardinality / place[-1]))
                rows.append((*place, run.scheme, run.rounds, skipped))
    return pandas.DataFrame(rows, columns=[*PLACE, "rounds", "skipped"])


def main() -> None:
    runs = ours()
    longest = runs[runs.rounds == runs.groupby(PLACE).rounds.transform("max")]
    played = longest.groupby(PLACE).agg(
        simfl_rounds=("rounds", "max"), simfl_lowest=("skipped", "min"), simfl_highest=("skipped", "max")
    )
    counted = pandas.read_csv(HERE / "published_runs.csv")
    rows = []
    for place, group in counted.groupby([*PLACE, "rounds"], sort=False):
        data, setting, clients, k, scheme, rounds = place
        told = expected(clients, k, unit(scheme, k), rounds, (data, setting) == ("MNIST", "non-IID"))
        stored = dict(zip(("expected", "expected_lower", "expected_upper"), told, strict=True))
        counts = {"lowest": group.unchanged.min(), "highest": group.unchanged.max()}
        rows.append(dict(zip([*PLACE, "rounds"], place, strict=True)) | counts | stored)
    pandas.DataFrame(rows).join(played, on=PLACE).to_csv(HERE / "skipped.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
