"""Table 3.2 of the thesis, reduced: coloured and rotated MNIST, the algorithms and clients that have no other table.

    python results/masked_averaging/shifted.py [--rounds 30] [--seeds 5] [--cases 1] [--out results]

Five algorithms, with the mean and with the mask, at the rates of the thesis' Table B.6, on training images that are
coloured or rotated by their class and test images that are not: coloured MNIST with clients alike, rotated MNIST with
clients alike and with two classes a client (``algorithms.py algorithms_colours`` has the fourth), the first ``--cases``
of which are played. Ten clients, 20 local steps a round; the thesis trains until convergence. Writes beside this file

    shifted_seeds.csv    a row a case and seed: the test accuracy of both arms in per cent, mean over the last five
                         evaluations (of every second round)
    shifted.csv          a row a case: means over the seeds in which neither diverged, and mask less mean, paired by
                         seed, with their 95 % intervals
"""

from pathlib import Path

import pandas
from algorithms import ALGORITHMS, ARMS_OF_THE_THESIS, CHANGES, PARTITIONS, TWO_CLASSES
from masked_averaging import ARMS, SCENARIO, measures

from simfl.experiments import runner
from simfl.experiments.compare.intervals import mean, paired_difference
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
CASES = (("rotation", TWO_CLASSES), ("colours", "IID"), ("rotation", "IID"))
NAMES = ("FedAvg", "FedProx", "SCAFFOLD", "FedAdam", "FedYogi")
SERVER_RATES = {("rotation", "IID", "SCAFFOLD"): "1.5", ("rotation", TWO_CLASSES, "FedProx"): "1.5"}
"""Where Table B.6 has another one than in its other cases."""
KEY = ["data", "partition", "algorithm"]


def scenario(case: tuple[str, str, str], arm: str, seed: int, rounds: int) -> Scenario:
    """One run."""
    data, partition, name = case
    changes = CHANGES | {"learning.data": "mnist", "learning.transform": data, "learning.evaluate": "2"}
    changes |= {"training.rounds": str(rounds), "training.aggregate": ARMS[arm]}
    changes |= PARTITIONS[partition] | ALGORITHMS[name]
    if case in SERVER_RATES:
        changes["training.server_learning_rate"] = SERVER_RATES[case]
    if arm == "masked" and "training.server_optimiser" in changes:
        changes["training.aggregate"] = "{name: masked, tau: 0.4, masks: step}"
    return runner.scenario(SCENARIO, changes, seed)


def summary(table: pandas.DataFrame) -> pandas.DataFrame:
    """The rows of shifted.csv, of those of shifted_seeds.csv."""
    rows = []
    for case, runs in table.groupby(KEY, sort=False):
        whole = runs.dropna()
        row = dict(zip(KEY, case, strict=True)) | {"rounds": runs["rounds"].iloc[0], "seeds": len(whole)}
        row["diverged"] = len(runs) - len(whole)
        if len(whole):
            both = [whole[arm].tolist() for arm in ARMS_OF_THE_THESIS]
            named = zip(("mean", "masked", "difference"), (*map(mean, both), paired_difference(*both[::-1])))
            for name, each in named:
                row |= {name: each.estimate, f"{name}_low": each.lower, f"{name}_high": each.upper}
        rows.append(row)
    return pandas.DataFrame(rows)


def main() -> None:
    parser = runner.parser(__doc__, seeds=5)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--cases", type=int, default=len(CASES))
    options = parser.parse_args()
    runs = {
        (seed, *case, name, arm): scenario((*case, name), arm, seed, options.rounds)
        for case in CASES[: options.cases]
        for name in NAMES
        for seed in range(options.seeds)
        for arm in ARMS_OF_THE_THESIS
    }
    folders = runner.run_all(runs, options, options.rounds * 0.8)
    measured = runner.by_seed(["seed", *KEY, "arm"], folders, measures)
    table = measured.pivot(index=["seed", *KEY], columns="arm", values="accuracy").reset_index()
    complete = [all((*key, arm) in folders for arm in ARMS_OF_THE_THESIS) for key in table[["seed", *KEY]].to_numpy()]
    table = table[complete][["seed", *KEY, *ARMS_OF_THE_THESIS]].assign(rounds=options.rounds)
    table.to_csv(HERE / "shifted_seeds.csv", index=False, float_format="%.5g")
    summary(table).to_csv(HERE / "shifted.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
