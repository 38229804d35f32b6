"""What FedLTN's threshold sees: validation accuracy by client and round, written beside this file.

    python results/fedltn/threshold.py low_lenet [--seeds 5] [--out results]

Runs the arm "FedLTN 0.9" of a table of fedltn.py with a rule that notes the validation accuracy of every trained
model, and writes <table>_threshold.csv: for each ten rounds the jobs, their mean validation accuracy, the shares of
them above 0.4, 0.5 and 0.6, how far apart the clients are (the lowest and the highest client's mean), and the share of
the weights that their clients have pruned.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas
from arms import ARMS, BRIEF, HERE, SCENARIO, TABLES
from numpy.typing import NDArray

import simfl
from simfl.papers.lottery_tickets.fedltn import FedLtn, Tickets
from simfl.plugins.clients import (
    PERSONAL,
    ClientAlgorithm,
    LocalContext,
    LocalPass,
    LocalResult,
    Parameter,
)

THRESHOLDS = (0.4, 0.5, 0.6)
SEEN: list[dict[str, float]] = []


@PERSONAL("noting_fedltn")
@dataclass(frozen=True)
class Noting(FedLtn):
    """FedLTN whose clients' validation accuracies are noted."""

    def for_model(self, parameters: Sequence[Parameter], initial: NDArray[np.float32]) -> ClientAlgorithm:
        return _Noting(**vars(FedLtn.for_model(self, parameters, initial)))


@dataclass(frozen=True)
class _Noting(Tickets):
    def end(
        self, context: LocalContext, local_pass: LocalPass, delta: NDArray[np.float32], steps: int, rate: float
    ) -> LocalResult | LocalPass:
        if local_pass.memo is None:
            gone = 0 if local_pass.mask is None else len(local_pass.mask) - np.count_nonzero(local_pass.mask)
            accuracy = context.accuracy(local_pass.start + delta)
            job = context.job
            SEEN.append(
                {"round": job.version, "client": job.client, "accuracy": accuracy, "pruned": gone / self.weights}
            )
        return Tickets.end(self, context, local_pass, delta, steps, rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    changes = BRIEF | TABLES[options.table] | ARMS["FedLTN 0.9"] | {"training.personal.name": "noting_fedltn"}
    frames = []
    for seed in range(options.seeds):
        SEEN.clear()
        simfl.run(
            SCENARIO, [f"{key}={value}" for key, value in changes.items()], seed=seed, out=options.out, force=True
        )
        frames.append(pandas.DataFrame(SEEN).assign(seed=seed))
    seen = pandas.concat(frames)
    rows = []
    for decade, jobs in seen.groupby(seen["round"] // 10):
        of_client = jobs.groupby(["seed", "client"]).accuracy.mean()
        row = {"rounds": f"{10 * decade}-{10 * decade + 9}", "jobs": len(jobs), "accuracy": jobs.accuracy.mean()}
        row |= {f"above_{least}": (jobs.accuracy > least).mean() for least in THRESHOLDS}
        row |= {"lowest_client": of_client.min(), "highest_client": of_client.max(), "pruned": jobs.pruned.mean()}
        rows.append(row)
    pandas.DataFrame(rows).to_csv(HERE / f"{options.table}_threshold.csv", index=False, float_format="%.3g")
    print(pandas.DataFrame(rows).to_string())


if __name__ == "__main__":
    main()
