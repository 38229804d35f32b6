"""Experiments 1 to 3 of PrivacyFL (Mugunthan, MIT 2022, section 5.4), written beside this file.

    python results/privacyfl/experiments.py [--seeds 10] [--out results] [figure52 figure53 figure54 | table52]

Runs the scenarios privacyfl, privacyfl_kdd and privacyfl_serverless with the noise of the publication and with noise
that is calibrated to the epsilon stated, and each client alone; finished runs are reused. Writes figure52, figure53
and figure54 (.csv, .svg), or table52.csv and table52_paired.csv, which is worth --seeds 100: means and half the width
of 95 % intervals over the seeds, after every tenth seed and the last; figure52_seeds.csv and so on have a row a seed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
from scipy import stats
from table52 import (
    HERE,
    TABLE_52,
    alone,
    epsilon_weight,
    noise,
    paired,
    played,
    table52,
)

from simfl.experiments import runner
from simfl.report import style


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
                   "accuracy": row.test_accuracy, "epsilon_weight": epsilon_weight(row)}  # fmt: skip


def figure53(seed: int, out: Path) -> Iterator[dict[str, Any]]:
    """KDD 99 by the number of clients and epsilon."""
    for n in (3, 10, 30):
        for kind, epsilon in (("published", 0.1), ("published", 1.0), ("calibrated", 1.0)):
            change = noise(epsilon=epsilon, samples=30, noise_scale=kind)
            rounds, _ = played("privacyfl_kdd", [f"seed={seed}", f"clients={n}", change], out)
            for t, row in rounds.iterrows():
                yield {"clients": n, "noise": kind, "epsilon": epsilon, "round": t + 1, "accuracy": row.test_accuracy,
                       "epsilon_weight": epsilon_weight(row)}  # fmt: skip


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
    parser = runner.parser(__doc__, seeds=10, costs=False)
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
        tables[f"{name}_seeds"] = rows.drop(columns="epsilon_weight", errors="ignore")
        drawn(name, table)
    for each, content in tables.items():
        content.to_csv(HERE / f"{each}.csv", index=False, float_format="%.4g", lineterminator="\n")


if __name__ == "__main__":
    main()
