"""Table 3.1 of the thesis, reduced: five algorithms, with the mean and with the mask, on MNIST and Fashion-MNIST.

    python results/masked_averaging/algorithms.py [--rounds 30] [--seeds 1] [--out results]

Runs scenarios/masked_averaging.yaml (ten clients, all of them in every round) with 20 local steps a round and the
rates of the thesis' Table B.5; SCAFFOLD without momentum, which simfl refuses there, and FedAvg without momentum, too
(Table B.3, for which no rate is printed: 0.01). Finished runs are reused. Writes algorithms.csv beside this file: one
row for data, partition and algorithm, with the test accuracy in per cent of both arms, mean over the seeds in which
neither diverged of the mean over the last five evaluations (of every second round), the same after half of the rounds,
and the paired difference with its 95 % interval.
"""

import math
from pathlib import Path
from typing import Any

import pandas
from masked_averaging import ARMS, LAST, SCENARIO

import simfl
from simfl.experiments import runner
from simfl.experiments.compare.intervals import paired_difference
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
CHANGES = {"training.local_steps": "20", "training.learning_rate": "0.01", "learning.evaluate": "2"}
ADAPTIVE = {"training.learning_rate": "0.001", "training.server_learning_rate": "0.05"}
OPTIMISER = "{name: %s, epsilon: 0.001, beta1: 0.9, beta2: 0.99}"
ALGORITHMS: dict[str, dict[str, str]] = {
    "FedAvg": {},
    "FedProx": {"training.client": "{name: fedprox, mu: 1}"},
    "SCAFFOLD": {"training.client": "scaffold", "training.momentum": "0"},
    "FedAdam": ADAPTIVE | {"training.server_optimiser": OPTIMISER % "adam"},
    "FedYogi": ADAPTIVE | {"training.server_optimiser": OPTIMISER % "yogi"},
    "FedAvg, no momentum": {"training.momentum": "0"},
}
FASTER = {("fashion_mnist", "IID", name): {"training.learning_rate": "0.1"} for name in ("FedAvg", "FedProx")}
"""Where the thesis has another rate than in its other settings."""
PARTITIONS = {"IID": {"learning.partition": "iid"}, "two classes, 90 %": {}}
DATA = ("mnist", "fashion_mnist")
PRINTED = {
    ("mnist", "IID"): ("99.1, 99.2", "99.1, 99.2", "99.1, 99.2", "98.7, 98.9", "98.7, 98.9", "99.0, 99.0"),
    ("mnist", "two classes, 90 %"): (
        "98.9, 98.9", "98.8, 98.9", "99.0, 99.0", "98.5, 98.6", "98.5, 98.9", "98.4, 98.6",
    ),
    ("fashion_mnist", "IID"): ("89.1, 90.5", "90.1, 91.4", "90.0, 90.8", "88.6, 90.4", "88.6, 90.0", "88.6, 88.5"),
    ("fashion_mnist", "two classes, 90 %"): (
        "88.1, 88.4", "87.6, 87.7", "87.7, 88.3", "86.8, 87.3", "86.6, 87.5", "87.0, 87.8",
    ),
}  # fmt: skip
"""Tables 3.1 and B.3: mean and mask, in the order of ``ALGORITHMS``."""


def scenario(data: str, partition: str, name: str, arm: str, seed: int, rounds: int) -> Scenario:
    """One run."""
    changes = CHANGES | {"learning.data": data, "training.rounds": str(rounds), "training.aggregate": ARMS[arm]}
    changes |= PARTITIONS[partition] | ALGORITHMS[name] | FASTER.get((data, partition, name), {})
    if arm == "masked" and "training.server_optimiser" in changes:  # the thesis masks what these make of the mean
        changes["training.aggregate"] = "{name: masked, tau: 0.4, masks: step}"
    return runner.scenario(SCENARIO, changes, seed)


def accuracies(folder: Path) -> tuple[float, float]:
    """Per cent: after half of the rounds, and at the end; both not a number if the run diverged."""
    result = simfl.open(folder)
    if result.summary.get("diverged_round") is not None:
        return math.nan, math.nan
    measured = 100 * result.rounds.test_accuracy.dropna()
    half = measured[measured.index < len(result.rounds) / 2]
    return float(half.tail(LAST).mean()), float(measured.tail(LAST).mean())


def row(found: pandas.DataFrame) -> dict[str, Any]:
    """A row from the accuracies of its runs, by arm, seed, ``half`` and ``end``."""
    half, end = (found.pivot(index="seed", columns="arm", values=when).dropna() for when in ("half", "end"))
    gap = paired_difference(end.masked.to_numpy(), end["mean"].to_numpy()) if len(end) else None
    return {
        "seeds": len(end),
        "mean_half": half["mean"].mean(),
        "masked_half": half.masked.mean(),
        "mean": end["mean"].mean(),
        "masked": end.masked.mean(),
        "masked_mean": gap.estimate if gap else math.nan,
        "low": gap.lower if gap else math.nan,
        "high": gap.upper if gap else math.nan,
    }


def markdown(table: pandas.DataFrame) -> str:
    """The table of docs/how-to/learning.md."""
    lines = ["| data, clients | algorithm | mean, masked | after half of the rounds | published: mean, masked |",
             "|---|---|---|---|---|"]  # fmt: skip
    for told in table.itertuples():
        printed = dict(zip(ALGORITHMS, PRINTED[told.data, told.partition]))[told.algorithm]
        end, half = (f"{mean:.1f}, {masked:.1f}" if told.seeds else "diverged"
                     for mean, masked in ((told.mean, told.masked), (told.mean_half, told.masked_half)))  # fmt: skip
        name = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}[told.data]
        lines.append(f"| {name}, {told.partition} | {told.algorithm} | {end} | {half} | {printed} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, seeds=1)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    runs = {
        (data, partition, name, arm, seed): scenario(data, partition, name, arm, seed, options.rounds)
        for seed in range(options.seeds)
        for data in DATA
        for partition in PARTITIONS
        for name in ALGORITHMS
        for arm in ("mean", "masked")
    }
    names = ["data", "partition", "algorithm", "arm", "seed"]
    found = pandas.DataFrame(
        [(*key, *accuracies(folder)) for key, folder in runner.run_all(runs, options, options.rounds * 1.0).items()],
        columns=[*names, "half", "end"],
    )
    rows = [
        dict(zip(names, key, strict=False)) | {"rounds": options.rounds} | row(cell)
        for key, cell in found.groupby(names[:3], sort=False)
        if set(cell.arm) == {"mean", "masked"}
    ]
    table = pandas.DataFrame(rows)
    table.to_csv(HERE / "algorithms.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
