"""Experiments 1 to 3 of PrivacyFL (Mugunthan, MIT 2022, section 5.4), written beside this file.

    python results/privacyfl/experiments.py [--seeds 10] [--out results] [figure52 figure53 figure54 | table52]

Runs the scenarios privacyfl, privacyfl_kdd and privacyfl_serverless with the noise of the publication and with noise
that is calibrated to the epsilon stated, and each client alone; finished runs are reused. Writes figure52, figure53
and figure54 (.csv, .svg), or table52.csv and table52_paired.csv, which is worth --seeds 100: means and half the width
of 95 % intervals over the seeds, after every tenth seed and the last.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
from scipy import stats

from simfl.report import style
from simfl.results.run_files import read_table
from simfl.runs.run import run
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
"""Of the figures' noise. The publication's code states 1, at which no epsilon of its figures makes a difference."""
ALPHAS = (0.015, 0.02, 0.03)
"""Of Table 5.2."""
LONGER = ("50 passes, rate 0.1", ["training.local_epochs=50", "training.learning_rate=0.1"], 20)
"""Clients that train until little changes, and for how many of the seeds."""
PAIRS = (("S2", "S3"), ("S3", "S1"), ("S2", "S1"), ("S4", "S2"), ("S4", "S1"))
"""Of two rows, the one that the publication prints as the better one first; of client 3, S1 is better than S3."""


def played(scenario: str, changes: list[str], out: Path) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """rounds.csv and evaluation.csv of a run."""
    folder = run(Scenario.load(SCENARIOS / f"{scenario}.yaml", changes), out, resume=True).path
    return read_table(folder / "rounds.csv"), read_table(folder / "evaluation.csv")


def alone(client: int, rounds: int) -> list[str]:
    """One client, without noise and masks: its own models."""
    there = f"[{NAMES[client]}, 0, {rounds}]"
    return ["secagg=plain", "privacy.stages=[]",
            f"devices.availability={{name: trace, unit: rounds, inline: [{there}]}}"]  # fmt: skip


def noise(alpha: float = ALPHA, **fields: Any) -> str:
    inside = ", ".join(f"{name}: {value}" for name, value in fields.items())
    return f"privacy.stages=[{{name: output_perturbation, alpha: {alpha}, {inside}}}]"


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
    """Each client's accuracy with the model as it sees it, without its own noise, and that of the model as it is."""
    name, longer, seeds = LONGER
    kinds = [("5 passes, rate 1", [], alpha, "published") for alpha in ALPHAS]
    kinds += [("5 passes, rate 1", [], 0.02, "calibrated")]
    kinds += [(name, longer, 0.02, "published")] if seed < seeds else []
    for training, more in {training: more for training, more, *_ in kinds}.items():
        fixed = [f"seed={seed}", "training.rounds=1", *more]
        data = f"learning.partition={{name: growing, first: {list(SIZES)}}}"
        for client in range(3):
            rounds, _ = played("privacyfl", [*fixed, data, *alone(client, 1)], out)
            yield {"training": training, "alpha": None, "noise": "", "row": "S1", "client": f"{client + 1}",
                   "accuracy": rounds.test_accuracy.iloc[-1]}  # fmt: skip
    for training, more, alpha, kind in kinds:
        for row in ("S2", "S3", "S4"):
            epsilons = [epsilon for epsilon in TABLE_52[row][0] if epsilon is not None]
            n, sizes = len(epsilons), list(SIZES[: len(epsilons)])
            changes = [f"seed={seed}", "training.rounds=1", *more, f"clients={n}",
                       "network={name: star, latency_s: 0.1, names: null}",
                       f"learning.partition={{name: growing, first: {sizes}}}",
                       noise(alpha, epsilon=epsilons, samples=sizes, noise_scale=kind)]  # fmt: skip
            rounds, measured = played("privacyfl", changes, out)
            about = {"training": training, "alpha": alpha, "noise": kind, "row": row}
            weight = {"epsilon_weight": rounds.epsilon_weight.iloc[-1]}
            for client in range(n):
                own = measured[measured.name == f"test_accuracy_client_{client}"].value.iloc[-1]
                yield {**about, "client": f"{client + 1}", "accuracy": float(own), **weight}
            yield {**about, "client": "none", "accuracy": rounds.test_accuracy.iloc[-1], **weight}


def paired(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Differences of the rows of Table 5.2, seed by seed, and the intervals of their means."""
    rows = rows.fillna({"alpha": 0})
    index, columns = ["training", "client", "seed"], ["alpha", "noise", "row"]
    seeds = rows.pivot(index=index, columns=columns, values="accuracy").sort_index(axis=1)
    alone = seeds.xs("S1", axis=1, level="row").iloc[:, 0]
    found = []
    for alpha, kind in [key for key in seeds.columns.droplevel("row").unique() if key[1]]:
        mine = seeds[(alpha, kind)].assign(S1=alone)
        for better, other in PAIRS:
            for (training, client), values in (mine[better] - mine[other]).groupby(["training", "client"]):
                if (n := values.count()) > 1:
                    width = stats.t.ppf(0.975, n - 1) * values.sem()
                    found.append({"training": training, "alpha": alpha, "noise": kind, "client": client,
                                  "difference": f"{better} - {other}", "accuracy": values.mean(), "seeds": n,
                                  "half_width": width})  # fmt: skip
    return pandas.DataFrame(found)


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
    keys = [name for name in rows.columns if name not in ("accuracy", "epsilon_weight", "seed")]
    found = rows.groupby(keys, dropna=False, sort=False)
    table = found.accuracy.agg(accuracy="mean", seeds="count", sem="sem").reset_index()
    table["half_width"] = stats.t.ppf(0.975, (table.seeds - 1).clip(lower=1)) * table.pop("sem")
    if "epsilon_weight" in rows:
        table["epsilon_weight"] = found.epsilon_weight.mean().to_numpy()
    return table


def drawn(name: str, table: pandas.DataFrame) -> None:
    """A figure with the intervals as bands."""
    table = table.assign(epsilon=table.get("epsilon"), noise=table.get("noise", ""))
    panels = [("", table)] if name != "figure53" else [
        (f"{'calibrated, ' * (kind == 'calibrated')}ε = {epsilon:g}", some)
        for (kind, epsilon), some in table.groupby(["noise", "epsilon"], sort=False)
    ]  # fmt: skip
    with style.settings(svg_fonttype="path"):
        figure, (row,) = style.figure(1, len(panels), wide=True, height_in=3.2)
        for axes, (title, some) in zip(row, panels, strict=True):
            curves = "clients" if name == "figure53" else ["model", "noise", "epsilon"]
            for number, (_, curve) in enumerate(some.groupby(curves, sort=False, dropna=False)):
                look = style.look(number)
                axes.plot(curve["round"], curve.accuracy, label=label(name, curve.iloc[0]), **look)
                low, high = curve.accuracy - curve.half_width, (curve.accuracy + curve.half_width).clip(upper=1)
                axes.fill_between(curve["round"], low, high, color=look["color"], alpha=0.12, linewidth=0)
            axes.set(xlabel="round", title=title, ylim=(0.5 if name == "figure53" else None, 1))
        row[0].set_ylabel("test accuracy")
        row[-1].legend(frameon=False, fontsize=8, loc="lower right")
        figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})


def label(name: str, first: Any) -> str:
    if name == "figure53":
        return f"{first.clients} clients"
    if name == "figure54" or first.model != "federated":
        return str(first.model)
    return f"ε = {first.epsilon:g}{', calibrated' * (first.noise == 'calibrated')}"


EXPERIMENTS = {"table52": table52, "figure52": figure52, "figure54": figure54, "figure53": figure53}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("experiments", nargs="*", default=["figure52", "figure53", "figure54"])
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in options.experiments}
    for seed in range(options.seeds):
        for name in options.experiments:
            rows[name] += [{**row, "seed": seed} for row in EXPERIMENTS[name](seed, options.out)]
            if (seed + 1) % 10 == 0 or seed + 1 == options.seeds:
                write(name, pandas.DataFrame(rows[name]))
            print(seed, name, flush=True)


def write(name: str, rows: pandas.DataFrame) -> None:
    table = summed_up(rows)
    tables = {name: table}
    if name == "table52":
        table["printed"] = [TABLE_52[row.row][1][int(row.client) - 1] if row.client != "none" else None
                            for row in table.itertuples()]  # fmt: skip
        tables["table52_paired"] = paired(rows)
    else:
        drawn(name, table)
    for each, content in tables.items():
        content.to_csv(HERE / f"{each}.csv", index=False, float_format="%.4g", lineterminator="\n")


if __name__ == "__main__":
    main()
