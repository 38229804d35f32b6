"""Tables 3.1 and B.3 of the thesis, reduced: five algorithms, with the mean and with the mask, on two data sets.

    python results/masked_averaging/algorithms.py [--rounds 120] [--seeds 3] [--out results]
    python results/masked_averaging/algorithms.py algorithms_colours [--rounds 60] [--seeds 3]

Runs scenarios/masked_averaging.yaml (ten clients, all of them in every round) on MNIST and Fashion-MNIST with 20 local
steps a round, at the rates of the thesis' Tables B.5 and B.6. Without momentum, which simfl refuses with SCAFFOLD,
there are SCAFFOLD at the rates 0.01 and 0.1, and FedAvg at 0.1 (Table B.3 prints no rate). ``algorithms_colours`` is
coloured MNIST with two classes a client: a row of Table 3.2 and Figures 3-2 to 3-5. Finished runs are reused. Writes
beside this file

    algorithms.csv           one row for data, partition and algorithm: the test accuracy in per cent of both arms, mean
                             over the seeds in which neither diverged of the mean over the last five evaluations (of
                             every fifth round), the same after half of the rounds, and the paired difference with its
                             95 % interval
    algorithms_curves.csv    the test accuracy of both arms after every fifth round, mean over the same seeds, which
                             algorithms.svg draws; of coloured MNIST also the accuracy on the training samples

or algorithms_colours.csv, algorithms_colours_curves.csv and algorithms_colours.svg.
"""

import math
from itertools import compress
from pathlib import Path
from typing import Any

import pandas
from algorithms_drawing import compared_markdown, draw, markdown
from masked_averaging import ARMS, LAST, SCENARIO, measures, row

import simfl
from simfl.experiments import runner
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
CHANGES = {
    "training.local_steps": "20",
    "training.learning_rate": "0.01",
    "learning.evaluate": "5",
    "learning.backend": "grouped",
}
ADAPTIVE = {"training.learning_rate": "0.001", "training.server_learning_rate": "0.05"}
NO_MOMENTUM = {"training.momentum": "0"}
FASTER = NO_MOMENTUM | {"training.learning_rate": "0.1"}
"""Momentum of 0.9 begins anew in each job; over its 20 steps it multiplies a constant gradient by 6 on average."""
OPTIMISER = "{name: %s, epsilon: 0.001, beta1: 0.9, beta2: 0.99}"
ALGORITHMS: dict[str, dict[str, str]] = {
    "FedAvg": {},
    "FedProx": {"training.client": "{name: fedprox, mu: 1}"},
    "SCAFFOLD": NO_MOMENTUM | {"training.client": "scaffold"},
    "FedAdam": ADAPTIVE | {"training.server_optimiser": OPTIMISER % "adam"},
    "FedYogi": ADAPTIVE | {"training.server_optimiser": OPTIMISER % "yogi"},
    "FedAvg, no momentum": FASTER,
    "SCAFFOLD, rate 0.1": FASTER | {"training.client": "scaffold"},
}
OTHER_RATES = {("fashion_mnist", "IID", name): {"training.learning_rate": "0.1"} for name in ("FedAvg", "FedProx")}
"""Where the thesis has another rate than in its other settings."""
TWO_CLASSES = "two classes, 90 %"
PARTITIONS = {"IID": {"learning.partition": "iid"}, TWO_CLASSES: {}}
COLOURED = {
    "learning.data": "mnist",
    "learning.transform": "colours",
    "learning.evaluate": "{every: 5, per_client: true}",
}
DATA = {"mnist": {"learning.data": "mnist"}, "fashion_mnist": {"learning.data": "fashion_mnist"}, "colours": COLOURED}
TABLES = {
    "algorithms": (("mnist", "fashion_mnist"), ("IID", TWO_CLASSES), tuple(ALGORITHMS)),
    "algorithms_colours": (("colours",), (TWO_CLASSES,), ("FedAvg", "FedProx", "SCAFFOLD", "FedAdam", "FedYogi")),
}
"""The data, partitions and algorithms of a table."""
ARMS_OF_THE_THESIS = ("mean", "masked")
NUMBERS = ("mean_half", "masked_half", "mean", "masked", "masked_mean", "masked_mean_low", "masked_mean_high")
"""What a row lacks where every seed has diverged."""


def scenario(data: str, partition: str, name: str, arm: str, seed: int, rounds: int) -> Scenario:
    """One run."""
    changes = CHANGES | DATA[data] | {"training.rounds": str(rounds), "training.aggregate": ARMS[arm]}
    changes |= PARTITIONS[partition] | ALGORITHMS[name] | OTHER_RATES.get((data, partition, name), {})
    if arm == "masked" and "training.server_optimiser" in changes:  # the thesis masks what these make of the mean
        changes["training.aggregate"] = "{name: masked, tau: 0.4, masks: step}"
    return runner.scenario(SCENARIO, changes, seed)


def curve(folders: list[Path], column: str = "test_accuracy") -> pandas.Series:
    """Accuracy in per cent by round, mean over the runs."""
    rounds = [simfl.open(folder).rounds for folder in folders]
    accuracies = [100 * each[column].set_axis(each["round"] + 1).dropna() for each in rounds]
    return pandas.concat(accuracies, axis=1).mean(axis=1)


def rows_of(
    named: dict[str, str], made: dict[str, list[Path]], rounds: int
) -> tuple[dict[str, Any], list[pandas.DataFrame]]:
    """A row of algorithms.csv and its rows of algorithms_curves.csv, of both arms' runs, seed by seed."""
    measured = {arm: [measures(folder) for folder in folders] for arm, folders in made.items()}
    by_seed = zip(*measured.values(), strict=True)
    complete = [not any(math.isnan(each["accuracy"]) for each in both) for both in by_seed]
    made = {arm: list(compress(folders, complete)) for arm, folders in made.items() if any(complete)}
    means = {arm: curve(folders) for arm, folders in made.items()}
    halves = {f"{arm}_half": each[each.index <= rounds // 2].tail(LAST).mean() for arm, each in means.items()}
    curves = [
        pandas.DataFrame(named | {"arm": arm, "round": each.index, "accuracy": each.to_numpy()})
        for arm, each in means.items()
    ]
    if named["data"] == "colours":
        for each, folders in zip(curves, made.values(), strict=True):
            each["training_accuracy"] = curve(folders, "client_accuracy_mean").to_numpy()
    return named | {"rounds": rounds} | dict.fromkeys(NUMBERS, math.nan) | halves | row(measured), curves


def main() -> None:
    parser = runner.parser(__doc__, seeds=3)
    parser.add_argument("table", nargs="?", choices=TABLES, default="algorithms", help="default: algorithms")
    parser.add_argument("--rounds", type=int, default=120)
    options = parser.parse_args()
    chosen_data, partitions, names = TABLES[options.table]
    runs = {
        (data, partition, name, arm, seed): scenario(data, partition, name, arm, seed, options.rounds)
        for seed in range(options.seeds)
        for data in chosen_data
        for partition in partitions
        for name in names
        for arm in ARMS_OF_THE_THESIS
    }
    folders = runner.run_all(runs, options, options.rounds * 0.7)
    rows: list[dict[str, Any]] = []
    curves: list[pandas.DataFrame] = []
    for case in dict.fromkeys(key[:3] for key in runs):
        seeds = [s for s in range(options.seeds) if all((*case, arm, s) in folders for arm in ARMS_OF_THE_THESIS)]
        if seeds:
            made = {arm: [folders[*case, arm, seed] for seed in seeds] for arm in ARMS_OF_THE_THESIS}
            named = dict(zip(("data", "partition", "algorithm"), case, strict=True))
            line, both = rows_of(named, made, options.rounds)
            rows.append(line)
            curves += both
    if not curves:
        raise SystemExit("no row has all its runs, or all have diverged; no table is written")
    table = pandas.DataFrame(rows)
    table.to_csv(HERE / f"{options.table}.csv", index=False, float_format="%.5g")
    pandas.concat(curves).to_csv(file := HERE / f"{options.table}_curves.csv", index=False, float_format="%.5g")
    draw(pandas.read_csv(file), HERE / f"{options.table}.svg")
    print(markdown(table))
    if options.table == "algorithms_colours":
        print(compared_markdown(pandas.read_csv(file)))


if __name__ == "__main__":
    main()
