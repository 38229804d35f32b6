"""FedBuff against FedAvg on the same 1000 devices: client updates and simulated time to a target accuracy on MNIST.

    python results/fedbuff/against_fedavg.py tune [--only NAME]     # learning rates, on a seed of their own
    python results/fedbuff/against_fedavg.py run                    # three seeds with the rates found

Runs scenarios/fedbuff_mnist.yaml (finished runs are reused). ``tune`` writes tuning.csv: for every algorithm and
every pair of learning rates the client updates until the test accuracy first reaches the target, at most 6000.
``run`` takes the pair with the fewest, writes curves.csv (test accuracy after every 100 client updates), targets.csv
(updates and simulated seconds to the targets, mean over the seeds) and against_fedavg.svg.
"""

from itertools import product
from pathlib import Path

import pandas
from against_fedavg_drawing import HERE, SHOWN, TARGET, TARGETS, draw

from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.runs.run import run
from simfl.scenario import Scenario

SCENARIO = HERE.parent.parent / "scenarios" / "fedbuff_mnist.yaml"
MOST, RESOLUTION = 6000, 100
TUNING_SEED, SEEDS = 100, (0, 1, 2)
FEDAVG = "training={name: fedavg, rounds: 1, local_epochs: 1, batch_size: 20}"
ALGORITHMS = {
    "FedAvg, 100 at a time": (100, [FEDAVG, "selection.k=100"]),
    "FedAvg, 10 at a time": (10, [FEDAVG, "selection.k=10"]),
    "FedBuff, 100 at a time, K=10": (10, []),
    "FedAsync, 100 at a time": (1, ["training.name=fedasync", "training.buffer=1"]),
}

RATES = (0.1, 0.2, 0.4)
SERVER_RATES = {
    "FedAvg, 100 at a time": (1.0, 1.5),
    "FedAvg, 10 at a time": (1.0,),
    "FedBuff, 100 at a time, K=10": (1.0, 2.0, 3.0),
    "FedAsync, 100 at a time": (0.3, 0.6),
}


def play(name: str, rate: float, server_rate: float, seed: int, out: Path, tuning: bool = False) -> pandas.DataFrame:
    """One run's curve: client_updates, time_s, test_accuracy, one row an evaluation."""
    size, overrides = ALGORITHMS[name]
    most = MOST if tuning else SHOWN.get(name, MOST)
    if tuning and not name.startswith("FedAvg"):
        overrides = [*overrides, f"training.stop.target_accuracy={TARGET}"]
    scenario = Scenario.load(
        SCENARIO,
        [
            *overrides,
            "learning.backend=sequential",
            f"training.rounds={most // size}",
            f"learning.evaluate.every={max(1, RESOLUTION // size)}",
            f"training.learning_rate={rate}",
            f"training.server_learning_rate={server_rate}",
            f"seed={seed}",
        ],
    )
    rounds = Result.open(run(scenario, out, resume=True).path).rounds
    rounds["client_updates"] = rounds["cardinality"].cumsum()
    return rounds.loc[rounds["test_accuracy"].notna(), ["client_updates", "time_s", "test_accuracy"]]


def reached(curve: pandas.DataFrame, target: float) -> pandas.Series | None:
    """The first row at or above the target."""
    rows = curve[curve["test_accuracy"] >= target]
    return None if rows.empty else rows.iloc[0]


def tune(only: str | None, out: Path) -> None:
    path = HERE / "tuning.csv"
    rows = pandas.read_csv(path).to_dict("records") if path.exists() else []
    for name in ALGORITHMS if only is None else [only]:
        rows = [row for row in rows if row["algorithm"] != name]
        for rate, server_rate in product(RATES, SERVER_RATES[name]):
            curve = play(name, rate, server_rate, TUNING_SEED, out, tuning=True)
            first = reached(curve, TARGET)
            row = {"algorithm": name, "learning_rate": rate, "server_learning_rate": server_rate}
            row["client_updates"] = None if first is None else int(first["client_updates"])
            row["best_accuracy"] = curve["test_accuracy"].max()
            rows.append(row)
            print(row, flush=True)
    pandas.DataFrame(rows).to_csv(path, index=False, lineterminator="\n")


def compare(out: Path) -> None:
    tuning = pandas.read_csv(HERE / "tuning.csv")
    curves, targets = [], []
    for name, table in tuning.groupby("algorithm", sort=False):
        best = table.sort_values("client_updates", kind="stable").iloc[0]
        rates = best["learning_rate"], best["server_learning_rate"]
        found = {seed: play(name, *rates, seed, out) for seed in SEEDS}
        curves += [curve.assign(algorithm=name, seed=seed) for seed, curve in found.items()]
        for target in TARGETS:
            firsts = [reached(curve, target) for curve in found.values()]
            hit = pandas.DataFrame([first for first in firsts if first is not None])
            row = {"algorithm": name, "learning_rate": rates[0], "server_learning_rate": rates[1], "target": target}
            row |= {"seeds": len(firsts), "seeds_that_reached": len(hit)}
            for column in ("client_updates", "time_s"):
                row[column] = round(hit[column].mean(), 2) if len(hit) else None
                row[f"{column}_sd"] = round(hit[column].std(), 2) if len(hit) > 1 else None
            targets.append(row)
            print(row, flush=True)
    everything = pandas.concat(curves)[["algorithm", "seed", "client_updates", "time_s", "test_accuracy"]]
    everything.to_csv(HERE / "curves.csv", index=False, lineterminator="\n")
    pandas.DataFrame(targets).to_csv(HERE / "targets.csv", index=False, lineterminator="\n")
    draw(everything)


def main() -> None:
    parser = runner.parser(__doc__, costs=False)
    parser.add_argument("what", choices=["tune", "run", "draw"])
    parser.add_argument("--only", choices=list(ALGORITHMS))
    options = parser.parse_args()
    if options.what == "tune":
        tune(options.only, options.out)
    elif options.what == "run":
        compare(options.out)
    else:
        draw(pandas.read_csv(HERE / "curves.csv"))


if __name__ == "__main__":
    main()
