"""Sparse personal models on CIFAR-10 against averages, written beside this file.

    python results/fedltn/fedltn.py low_lenet [--seeds 5] [--out results]

Plays the arms of one table under the same draws (finished runs are reused):

    low_lenet     ten clients, half of them a round, 50 rounds, LeNet-5
    low_resnet8   the same with a batch-norm ResNet-8: Table 4.1 with a smaller model
    high_lenet    100 clients, 5 % of them a round, 2,000 rounds, LeNet-5: Table 4.3

and writes <table>.csv: accuracy of the models that the clients' last jobs left, on their own test samples (mean and
lowest client, mean over seeds with its 95 % interval), the same of what they begin the next job with, and published
megabytes, as the mean and as a share of FedAvg's.
"""

import argparse
from pathlib import Path

import pandas

import simfl
from simfl.compare.intervals import mean

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "fedltn.yaml"

LOW: dict[str, str] = {}
HIGH = {"clients": "100", "selection.k": "5", "training.rounds": "2000", "learning.evaluate.every": "100"}
TABLES = {
    "low_lenet": LOW,
    "low_resnet8": {"learning.model": "resnet8"},
    "high_lenet": HIGH,
}
AVERAGED = {"training.server_optimiser": "sgd"}
LOTTERY = "{name: lotteryfl, target: %s}"
ARMS = {
    "FedAvg": AVERAGED | {"training.personal": "none"},
    "FedBN": AVERAGED | {"training.personal": "fedbn"},
    "LotteryFL 0.1": AVERAGED | {"training.personal": LOTTERY % 0.1},
    "LotteryFL 0.5": AVERAGED | {"training.personal": LOTTERY % 0.5},
    "FedLTN 0.1": {"training.personal.target": "0.1"},
    "FedLTN 0.5": {"training.personal.target": "0.5"},
    "FedLTN 0.9": {"training.personal.target": "0.9"},
    "FedLTN 0.9, Jump-Start": {"training.personal.name": "jump_start", "training.rounds": "25"},
    "FedLTN 0.9, rewinding": {"training.personal.rewind": "true"},
    "FedLTN 0.9, no threshold": {"training.personal.threshold": "0"},
}
"""The last one prunes in every job: what the megabytes come to where nothing holds pruning up."""

MEASURES = {
    "trained_mean": "client_trained_accuracy_mean",
    "trained_min": "client_trained_accuracy_min",
    "before_mean": "client_accuracy_mean",
    "before_min": "client_accuracy_min",
}


def play(arm: dict[str, str], table: str, options: argparse.Namespace) -> list[dict[str, float]]:
    changes = TABLES[table] | arm | ({"learning.norm_statistics": "averaged"} if "resnet8" in table else {})
    texts = [f"{key}={value}" for key, value in changes.items()]
    found = []
    for seed in range(options.seeds):
        summary = simfl.run(SCENARIO, [*texts, f"seed={seed}"], out=options.out).summary
        row = {name: 100 * summary[column] for name, column in MEASURES.items()}
        # an average sends whole models, and counts as the others are counted: uploads only
        megabytes = summary.get("published_mb")
        found.append(row | {"megabytes": summary["bytes_up"] / 1e6 if megabytes is None else megabytes})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    rows, whole = [], 0.0
    for name, arm in ARMS.items():
        if name == "FedBN" and "resnet8" not in options.table:
            continue
        found = pandas.DataFrame(play(arm, options.table, options))
        whole = whole or found.megabytes.mean()
        row: dict[str, object] = {"arm": name, "seeds": len(found)}
        for measure in MEASURES:
            known = mean(found[measure].to_numpy())
            row |= {measure: known.estimate, f"{measure}_low": known.lower, f"{measure}_high": known.upper}
        rows.append(row | {"megabytes": found.megabytes.mean(), "share": found.megabytes.mean() / whole})
        pandas.DataFrame(rows).to_csv(HERE / f"{options.table}.csv", index=False, float_format="%.6g")
        print(name, {key: round(value, 3) for key, value in rows[-1].items() if isinstance(value, float)}, flush=True)


if __name__ == "__main__":
    main()
