"""Sparse personal models on CIFAR-10 against averages, written beside this file.

    python results/fedltn/fedltn.py low_lenet [--seeds 5] [--rounds N] [--out results]

Runs the arms of one table under the same draws, seed after seed (finished runs are reused):

    low_lenet     ten clients, half of them a round, 50 rounds, LeNet-5
    low_resnet8   the same with a batch-norm ResNet-8: Table 4.1 with a smaller model
    high_lenet    100 clients, 5 % of them a round, 2,000 rounds, LeNet-5: Table 4.3

and writes

    <table>.csv         each arm's accuracy of the models that the clients' last jobs left, on their own test samples
                        (mean and lowest client), the same of what they begin the next job with, published megabytes,
                        and the share of uploaded values that is pruned in round 20 and in the last; mean over seeds
                        with its 95 % interval (<table>_<N>_rounds.csv and so on with --rounds); seeds in which the
                        arm diverged are counted, and left out
    <table>_paired.csv  differences of arms, seed by seed, with their 95 % intervals
    <table>_course.csv  where accuracy is measured more than once: both means, and the training loss, on the way
    <table>.svg         the distribution over all clients and seeds of what their last jobs left
"""

from pathlib import Path
from typing import NamedTuple

import pandas
from arms import ARMS, BRIEF, SCENARIO, TABLES
from tabulated import MEASURES, draw, sent_mb, write, write_courses

import simfl
from simfl.experiments import runner
from simfl.scenario import Scenario

EARLY, AROUND = 20, 5
"""The pruned share "in round 20" is that of the five rounds up to it."""
LATELY = 100
"""Rounds that a training loss on the way is the mean of."""


class Played(NamedTuple):
    """What one run of an arm comes to: its row, its clients' accuracies, and what was measured on the way."""

    row: dict[str, float]
    clients: pandas.DataFrame
    course: pandas.DataFrame
    diverged: bool


def scenario(name: str, seed: int, table: str, rounds: int | None) -> Scenario:
    """One arm of a table, of so many rounds where that is not what it has."""
    changes = BRIEF | TABLES[table] | ARMS[name]
    if rounds:
        changes |= {"training.rounds": str(rounds)}
    if "Jump-Start" in name and "high" not in table:
        changes |= {"training.rounds": "25"}
    return runner.scenario(SCENARIO, changes, seed)


def played(folder: Path) -> Played:
    """What one finished run comes to."""
    result = simfl.open(folder)
    values = {measure: result.summary[column] for measure, column in MEASURES.items()}
    diverged = result.summary.get("diverged_round") is not None
    row = {measure: float("nan") if diverged else 100 * value for measure, value in values.items()}
    sent = sent_mb(result.rounds)
    lately = sent.rolling(AROUND).mean()
    row |= {"megabytes": sent.sum(), "sent_20": lately.iloc[EARLY - 1], "sent_last": lately.iloc[-1]}
    course = result.rounds.assign(
        rounds=result.rounds["round"] + 1,
        trained_mean=100 * result.rounds.client_trained_accuracy_mean,
        before_mean=100 * result.rounds.client_accuracy_mean,
        train_loss=result.rounds.train_loss.rolling(LATELY, min_periods=1).mean(),
    )
    course = course.loc[course.trained_mean.notna(), ["rounds", "trained_mean", "before_mean", "train_loss"]]
    return Played(row, pandas.read_csv(result.path / "accuracies.csv"), course, diverged)


def main() -> None:
    parser = runner.parser(__doc__, seeds=5)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--rounds", type=int, help="fewer than the table has")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), metavar="ARM", help="FedAvg and these")
    options = parser.parse_args()
    names = [
        name for name in dict.fromkeys(["FedAvg", *options.arms]) if "FedBN" not in name or "resnet8" in options.table
    ]
    runs = {
        (name, seed): scenario(name, seed, options.table, options.rounds)
        for seed in range(options.seeds)
        for name in names
    }
    found: dict[str, dict[int, Played]] = {name: {} for name in names}
    for (name, seed), folder in runner.run_all(runs, options, seconds=300 if "high" in options.table else 60).items():
        found[name][seed] = played(folder)
    stem = f"{options.table}_{options.rounds}_rounds" if options.rounds else options.table
    diverged = {name: sum(run.diverged for run in runs.values()) for name, runs in found.items()}
    found = {name: {seed: run for seed, run in runs.items() if not run.diverged} for name, runs in found.items()}
    found = {name: runs for name, runs in found.items() if runs}
    write({name: {seed: run.row for seed, run in runs.items()} for name, runs in found.items()}, diverged, stem)
    write_courses({name: [run.course for run in runs.values()] for name, runs in found.items()}, stem)
    draw({name: [run.clients for run in runs.values()] for name, runs in found.items()}, stem)


if __name__ == "__main__":
    main()
