"""Table 3.1 of the thesis, reduced: five algorithms, with the mean and with the mask, on MNIST and Fashion-MNIST.

    python results/masked_averaging/algorithms.py [--rounds 30] [--seeds 1] [--out results]

Runs scenarios/masked_averaging.yaml (ten clients, all of them in every round) with 20 local steps a round and the
rates of the thesis' Table B.5; SCAFFOLD without momentum, which simfl refuses there, and FedAvg without momentum, too
(Table B.3, for which no rate is printed: 0.01). Finished runs are reused. Writes algorithms.csv beside this file: one
row for data, partition and algorithm, with the test accuracy in per cent of both arms, mean over the seeds in which
neither diverged of the mean over the last five evaluations (of every second round), the same after half of the rounds,
and the paired difference with its 95 % interval.
"""

from pathlib import Path
from typing import Any

import pandas
from masked_averaging import ARMS, LAST, SCENARIO, measures, row

import simfl
from simfl.experiments import runner
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
ARMS_OF_THE_THESIS = ("mean", "masked")
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


def halfway(folder: Path) -> float:
    """Test accuracy in per cent after half of the rounds, as :func:`masked_averaging.measures` has it at the end."""
    rounds = simfl.open(folder).rounds
    return float(100 * rounds.test_accuracy[: len(rounds) // 2].dropna().tail(LAST).mean())


def markdown(table: pandas.DataFrame) -> str:
    """The table of docs/how-to/learning.md."""
    lines = ["| data, clients | algorithm | mean, masked | after half of the rounds | published: mean, masked |",
             "|---|---|---|---|---|"]  # fmt: skip
    for told in table.itertuples():
        printed = dict(zip(ALGORITHMS, PRINTED.get((told.data, told.partition), ()))).get(told.algorithm, "")
        end, half = (f"{mean:.1f}, {masked:.1f}" if told.seeds else "diverged"
                     for mean, masked in ((told.mean, told.masked), (told.mean_half, told.masked_half)))  # fmt: skip
        name = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}.get(told.data, told.data)
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
        for arm in ARMS_OF_THE_THESIS
    }
    folders = runner.run_all(runs, options, options.rounds * 1.0)
    rows: list[dict[str, Any]] = []
    for case in dict.fromkeys(key[:3] for key in runs):
        seeds = [s for s in range(options.seeds) if all((*case, arm, s) in folders for arm in ARMS_OF_THE_THESIS)]
        made = {arm: [folders[*case, arm, seed] for seed in seeds] for arm in ARMS_OF_THE_THESIS}
        if seeds:
            halves = {f"{arm}_half": pandas.Series(map(halfway, made[arm])).mean() for arm in made}
            found = {arm: list(map(measures, made[arm])) for arm in made}
            named = dict(zip(("data", "partition", "algorithm"), case, strict=True))
            rows.append(named | {"rounds": options.rounds} | halves | row(found))
    table = pandas.DataFrame(rows)
    table.to_csv(HERE / "algorithms.csv", index=False, float_format="%.5g")
    print(markdown(table))


if __name__ == "__main__":
    main()
