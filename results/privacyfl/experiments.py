"""Experiments 1 to 3 of PrivacyFL (Mugunthan, MIT 2022, section 5.4), written beside this file.

    python results/privacyfl/experiments.py [--seeds 5] [--out results] [figure52 table52 figure53 figure54]

Plays the scenarios privacyfl, privacyfl_kdd and privacyfl_serverless with the noise of the publication and with noise
that is calibrated to the epsilon stated, and each client alone; finished runs are reused. Writes figure52.csv,
table52.csv, figure53.csv and figure54.csv: means and half the width of 95 % intervals over the seeds, after every seed.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
from scipy import stats

from simfl.results import read_table
from simfl.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE.parent.parent / "scenarios"
NAMES = ("Boston", "Singapore", "New York")
SIZES = (150, 150, 250)
TABLE_52 = {  # epsilon of each client; None = it is not there
    "S1": ((), (0.750, 0.793, 0.823)),
    "S2": ((1.0, 1.0, None), (0.806, 0.810, None)),
    "S3": ((0.1, 0.1, 0.1), (0.767, 0.800, 0.813)),
    "S4": ((1.0, 1.0, 0.1), (0.827, 0.830, 0.850)),
}
ALPHA = 0.03
"""Of the noise. The publication's code states 1, at which no epsilon of its figures makes a difference."""


def played(scenario: str, changes: list[str], out: Path) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """rounds.csv and evaluation.csv of a run."""
    folder = run(Scenario.load(SCENARIOS / f"{scenario}.yaml", changes), out, resume=True).path
    return read_table(folder / "rounds.csv"), read_table(folder / "evaluation.csv")


def alone(client: int, rounds: int) -> list[str]:
    """One client, without noise and masks: its own models."""
    there = f"[{NAMES[client]}, 0, {rounds}]"
    return ["secagg=plain", "privacy.stages=[]",
            f"devices.availability={{name: trace, unit: rounds, inline: [{there}]}}"]  # fmt: skip


def noise(**fields: Any) -> str:
    inside = ", ".join(f"{name}: {value}" for name, value in fields.items())
    return f"privacy.stages=[{{name: output_perturbation, alpha: {ALPHA}, {inside}}}]"


def figure52(seed: int, out: Path) -> Iterator[dict[str, Any]]:
    """Mean accuracy of the clients alone, and of the federated model."""
    curves = [played("privacyfl", [f"seed={seed}", *alone(client, 8)], out)[0].test_accuracy for client in range(3)]
    for t, accuracy in enumerate(sum(curves) / 3):
        yield {"model": "clients alone", "noise": "", "epsilon": None, "round": t + 1, "accuracy": accuracy}
    for kind, epsilon in (("published", 0.1), ("published", 1.0), ("published", 8.0), ("calibrated", 1.0)):
        change = noise(epsilon=epsilon, samples=30, new=30, noise_scale=kind)
        rounds, _ = played("privacyfl", [f"seed={seed}", change], out)
        for t, row in rounds.iterrows():
            yield {"model": "federated", "noise": kind, "epsilon": epsilon, "round": t + 1,
                   "accuracy": row.test_accuracy, "epsilon_weight": row.epsilon_weight}  # fmt: skip


def table52(seed: int, out: Path) -> Iterator[dict[str, Any]]:
    """Each client's accuracy with the federated model as it sees it: without its own noise."""
    fixed = [f"seed={seed}", "training.rounds=1"]
    data = f"learning.partition={{name: growing, first: {list(SIZES)}}}"
    for client in range(3):
        rounds, _ = played("privacyfl", [*fixed, data, *alone(client, 1)], out)
        yield {"row": "S1", "noise": "", "client": client + 1, "accuracy": rounds.test_accuracy.iloc[-1]}
    for name in ("S2", "S3", "S4"):
        for kind in ("published", "calibrated"):
            epsilons = [epsilon for epsilon in TABLE_52[name][0] if epsilon is not None]
            n = len(epsilons)
            sizes = list(SIZES[:n])
            changes = [f"clients={n}", "network={name: star, latency_s: 0.1, names: null}",
                       f"learning.partition={{name: growing, first: {sizes}}}",
                       noise(epsilon=epsilons, samples=sizes, noise_scale=kind)]  # fmt: skip
            rounds, measured = played("privacyfl", [*fixed, *changes], out)
            for client in range(n):
                own = measured[measured.name == f"test_accuracy_client_{client}"].value.iloc[-1]
                yield {"row": name, "noise": kind, "client": client + 1, "accuracy": float(own),
                       "epsilon_weight": rounds.epsilon_weight.iloc[-1]}  # fmt: skip


def figure53(seed: int, out: Path) -> Iterator[dict[str, Any]]:
    """KDD 99 by the number of clients and epsilon."""
    for n in (3, 10, 30):
        for kind, epsilon in (("published", 0.1), ("published", 1.0), ("calibrated", 1.0)):
            change = noise(epsilon=epsilon, samples=30, noise_scale=kind)
            rounds, _ = played("privacyfl_kdd", [f"seed={seed}", f"clients={n}", change], out)
            for t, row in rounds.iterrows():
                yield {"clients": n, "noise": kind, "epsilon": epsilon, "round": t + 1, "accuracy": row.test_accuracy,
                       "epsilon_weight": row.epsilon_weight}  # fmt: skip


def figure54(seed: int, out: Path) -> Iterator[dict[str, Any]]:
    """Without a server, with one, and each client alone."""
    for client in range(3):
        rounds, _ = played("privacyfl", [f"seed={seed}", "training.rounds=7", *alone(client, 7)], out)
        for t, accuracy in enumerate(rounds.test_accuracy):
            yield {"model": f"client {client + 1} alone", "round": t + 1, "accuracy": accuracy}
    for model, changes in (("serverless", []), ("server", ["training.name=fedavg"])):
        rounds, _ = played("privacyfl_serverless", [f"seed={seed}", *changes], out)
        for t, accuracy in enumerate(rounds.test_accuracy):
            yield {"model": model, "round": t + 1, "accuracy": accuracy}


def summed_up(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Mean and half the width of its 95 % interval (Student) over the seeds."""
    keys = [name for name in rows.columns if name not in ("accuracy", "epsilon_weight")]
    found = rows.groupby(keys, dropna=False, sort=False)
    table = found.accuracy.agg(accuracy="mean", seeds="count", sem="sem").reset_index()
    table["half_width"] = stats.t.ppf(0.975, (table.seeds - 1).clip(lower=1)) * table.pop("sem")
    if "epsilon_weight" in rows:
        table["epsilon_weight"] = found.epsilon_weight.mean().to_numpy()
    return table


EXPERIMENTS = {"table52": table52, "figure52": figure52, "figure54": figure54, "figure53": figure53}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("experiments", nargs="*", default=list(EXPERIMENTS))
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in options.experiments}
    for seed in range(options.seeds):
        for name in options.experiments:
            rows[name] += EXPERIMENTS[name](seed, options.out)
            table = summed_up(pandas.DataFrame(rows[name]))
            if name == "table52":
                table["printed"] = [TABLE_52[row.row][1][row.client - 1] for row in table.itertuples()]
            table.to_csv(HERE / f"{name}.csv", index=False, float_format="%.4g", lineterminator="\n")
            print(seed, name, flush=True)


if __name__ == "__main__":
    main()
