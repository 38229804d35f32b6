"""Gradient-masked against plain averaging in four arms, written beside this file.

    python results/masked_averaging/masked_averaging.py published [--rounds 100] [--seeds 3] [--out results]

Plays scenarios/masked_averaging.yaml with the mean, the mean times the mask's mean (the control), the masked mean, and
the masked mean divided by the mask's mean, under the same draws (finished runs are reused):

    published   ten clients, all of them, rates around the thesis' extremes (its Table B.7)
    epochs      the same with twenty local epochs (Table B.9)
    colours     MNIST in the colours of its classes, other colours in the test part
    rotation    MNIST turned by an angle of its class, the test part upright
    drawn       a hundred clients, ten of them a round, batches of 50

and writes <table>.csv: test accuracy in per cent, mean of the last ten evaluations, of each arm, and the paired
difference of the masked to the plain mean with its 95 % interval.
"""

import argparse
from pathlib import Path

import pandas

import simfl
from simfl.compare.intervals import paired

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "masked_averaging.yaml"
ARMS = {
    "mean": "mean",
    "shrunk": "{name: shrunk, tau: 0.4}",
    "masked": "{name: masked, tau: 0.4}",
    "rescaled": "{name: masked, tau: 0.4, rescale: all}",
}
PUBLISHED = ((0.01, 1.0), (0.01, 2.0), (0.05, 1.0), (0.05, 2.0))
MNIST = {"learning.data": "mnist"}
TABLES: dict[str, tuple[tuple[tuple[float, float], ...], dict[str, str]]] = {
    "published": (PUBLISHED, {}),
    "epochs": (((0.01, 1.0),), {"training.local_epochs": "20"}),
    "colours": (((0.01, 1.0),), MNIST | {"learning.transform": "colours"}),
    "rotation": (((0.01, 1.0),), MNIST | {"learning.transform": "rotation"}),
    "drawn": (
        ((0.01, 1.0), (0.03, 1.0), (0.03, 1.5)),
        {"clients": "100", "selection": "{name: random, k: 10}", "training.batch_size": "50",
         "training.weight_decay": "0"},
    ),
}  # fmt: skip
"""Learning rates of clients and server, and what else is changed."""

LAST = 10


def accuracy(arm: str, seed: int, changes: list[str], options: argparse.Namespace) -> float:
    overrides = [*changes, f"seed={seed}", f"training.aggregate={ARMS[arm]}", f"training.rounds={options.rounds}"]
    rounds = simfl.run(SCENARIO, overrides, out=options.out).rounds
    return 100 * float(rounds.test_accuracy.dropna().tail(LAST).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    rates, changes = TABLES[options.table]
    rows = []
    for rate, server_rate in rates:
        texts = [f"{key}={value}" for key, value in changes.items()]
        texts += [f"training.learning_rate={rate}", f"training.server_learning_rate={server_rate}"]
        found = {arm: [accuracy(arm, seed, texts, options) for seed in range(options.seeds)] for arm in ARMS}
        gap = paired(found["masked"], found["mean"])
        rows.append(
            {
                "learning_rate": rate,
                "server_learning_rate": server_rate,
                "rounds": options.rounds,
                "seeds": options.seeds,
            }
            | {arm: sum(values) / len(values) for arm, values in found.items()}
            | {"difference": gap.estimate, "lower": gap.lower, "upper": gap.upper}
        )
        pandas.DataFrame(rows).to_csv(HERE / f"{options.table}.csv", index=False, float_format="%.6g")
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
