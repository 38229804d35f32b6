"""Table 4.3 of the thesis by two rules of reporting: each client's best accuracy so far, and that of its last round.

    python results/fedltn/best.py [--seeds 5] [--arms ARM ...] [--rounds 2000] [--finished] [--out results]

Runs arms of ``fedltn.py high_lenet`` (a hundred clients, LeNet-5) with ``learning.evaluate.best``, seed after seed
(finished runs are reused; ``--finished``: only they are read), and writes beside this file, of those that did not
diverge,

    high_lenet_best.csv    one row an arm, seed and measured round: each client's best accuracy so far, of the models
                           that its local trainings left; what the last training left; the model before training; means
                           over the clients and the lowest client, per cent; megabytes so far

Rows of other arms and seeds stay in it, so that the file can be filled in several calls; the printed table includes
them.
"""

from pathlib import Path

import pandas
from arms import ARMS, BRIEF, HERE, PUBLISHED, SCENARIO, TABLES
from tabulated import grown, sent_mb

import simfl
from simfl.experiments import runner
from simfl.experiments.compare.intervals import mean
from simfl.scenario import Scenario

EVERY = 100
"""Rounds between two measurements."""
SEEDS = 5
TENTH = {name: arm | {"training.personal": arm["training.personal"].replace("step: 0.2", "step: 0.1")}
         for name, arm in ARMS.items() if name.startswith("LotteryFL")}  # fmt: skip
SLOW = {"training.learning_rate": "0.002"}
HOLDERS = {"plugins": f"[{HERE / 'holders.py'}]", "training.personal.name": "fedltn_holders"}
CHOSEN = {
    "FedLTN 0.1": ARMS["FedLTN 0.1"],
    "LotteryFL 0.1, step 0.1": TENTH["LotteryFL 0.1"],
    "FedLTN 0.5": ARMS["FedLTN 0.5"],
    "LotteryFL 0.5, step 0.1": TENTH["LotteryFL 0.5"],
    "FedLTN 0.1, rate 0.005": ARMS["FedLTN 0.1"] | {"training.learning_rate": "0.005"},
    "FedLTN 0.1, holders": ARMS["FedLTN 0.1"] | HOLDERS,
    "FedLTN 0.1, printed pull": ARMS["FedLTN 0.1"] | {"training.personal.pull_term": "distance"},
    "FedAvg": ARMS["FedAvg"],
    "FedLTN 0.9": ARMS["FedLTN 0.9"],
    "FedLTN 0.1, rate 0.01": ARMS["FedLTN 0.1"] | {"training.learning_rate": "0.01"},
    "FedLTN 0.1, rate 0.002": ARMS["FedLTN 0.1"] | SLOW,
    "FedAvg, rate 0.002": ARMS["FedAvg"] | SLOW,
    "LotteryFL 0.1, step 0.1, rate 0.002": TENTH["LotteryFL 0.1"] | SLOW,
    "FedLTN 0.9, rate 0.002": ARMS["FedLTN 0.9"] | SLOW,
    "FedLTN 0.5, rate 0.002": ARMS["FedLTN 0.5"] | SLOW,
    "LotteryFL 0.5, step 0.1, rate 0.002": TENTH["LotteryFL 0.5"] | SLOW,
    "LotteryFL 0.1": ARMS["LotteryFL 0.1"],
    "LotteryFL 0.5": ARMS["LotteryFL 0.5"],
}
"""In the order of what they decide."""
MEASURES = {
    "best_mean": "client_best_accuracy_mean",
    "best_min": "client_best_accuracy_min",
    "trained_mean": "client_trained_accuracy_mean",
    "trained_min": "client_trained_accuracy_min",
    "before_mean": "client_accuracy_mean",
    "before_min": "client_accuracy_min",
}


def scenario(name: str, seed: int, total: int | None) -> Scenario:
    """One run, of so many rounds where that is not what the table has."""
    changes = BRIEF | TABLES["high_lenet"] | CHOSEN[name]
    changes |= {"learning.evaluate.best": "true", "learning.evaluate.every": str(EVERY)}
    if total:
        changes |= {"training.rounds": str(total)}
    return runner.scenario(SCENARIO, changes, seed)


def measured(name: str, seed: int, folder: Path) -> pandas.DataFrame:
    """The measured rounds of one run."""
    rounds = simfl.open(folder).rounds
    table = pandas.DataFrame({measure: 100 * rounds[column] for measure, column in MEASURES.items()})
    table = table.assign(rounds=rounds["round"] + 1, megabytes=sent_mb(rounds).cumsum(), train_loss=rounds.train_loss)
    table.insert(0, "arm", name)
    table.insert(1, "seed", seed)
    table.insert(2, "rounds", table.pop("rounds"))
    return table[rounds.client_accuracy_mean.notna()]


def heading(*first: str, published: str) -> list[str]:
    """The first two lines of a table whose others :func:`line` makes."""
    heads = (*first, "best so far: mean", "lowest", "after the last job: mean", "lowest", "before a job: mean",
             "of FedAvg's MB", f"published: {published}")  # fmt: skip
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]


def line(*first: str, runs: pandas.DataFrame, dense_mb: float, published: str) -> str:
    """A line: one row of ``runs`` a seed, and FedAvg's megabytes."""
    columns = ("best_mean", "best_min", "trained_mean", "trained_min", "before_mean")
    cells = [
        *first,
        *(mean(runs[column].tolist()).text() for column in columns),
        f"{runs.megabytes.mean() / dense_mb:.2f}",
        published,
    ]
    return f"| {' | '.join(cells)} |"


def markdown(table: pandas.DataFrame) -> str:
    """A table: every arm after the last round, by both rules."""
    lines = heading("arm", "seeds", published="mean, lowest, share")
    dense = pandas.read_csv(HERE / "high_lenet.csv").set_index("arm").megabytes["FedAvg"]
    for arm, runs in table[table.rounds == table.rounds.max()].groupby("arm", sort=False):
        published = "{:.1f}, {:.1f}, {:.2f}".format(*PUBLISHED[arm.split(",")[0]])
        lines.append(line(arm, f"{len(runs)}", runs=runs, dense_mb=dense, published=published))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, seeds=SEEDS)
    parser.add_argument("--rounds", type=int, help="other than the table has")
    parser.add_argument("--arms", nargs="+", choices=CHOSEN, default=list(CHOSEN), metavar="ARM")
    options = parser.parse_args()
    keys = [(name, seed) for seed in range(options.seeds) for name in options.arms]
    runs = {(name, seed): scenario(name, seed, options.rounds) for name, seed in keys}
    folders = runner.run_all(runs, options, seconds=0.6 * (options.rounds or 2000))
    frames = []
    for (name, seed), folder in folders.items():
        if (diverged := simfl.open(folder).summary.get("diverged_round")) is None:
            frames.append(measured(name, seed, folder))
        else:
            print(f"{name}, seed {seed}, diverged in round {diverged} and is left out")
    stem = "high_lenet_best" + (f"_{options.rounds}_rounds" if options.rounds else "")
    print(markdown(grown(HERE / f"{stem}.csv", frames, folders, list(CHOSEN))))


if __name__ == "__main__":
    main()
