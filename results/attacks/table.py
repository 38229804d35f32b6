"""What an honest-but-curious server recovers under eleven policies and eight settings: digits.csv and digits.svg.

    python results/attacks/table.py [--data digits] [--out results]

48 clients, 12 a round (every unit divides both), one step of batch 20; four clients hold one sample each, which inversion
looks for; membership is asked of every client's samples. A perceptron on the digits (``--data mnist``: LeNet-5 on MNIST,
hours). The same draws for all. Finished runs are reused.
"""

import argparse
from math import log, sqrt
from pathlib import Path

import pandas

import simfl
from simfl.errors import SimflError

HERE = Path(__file__).resolve().parent
ROUNDS, K, Z, DELTA = 200, 12, (0.03, 0.3), 1e-5
POLICIES = {
    "random": "random",
    "weighted": "weighted",
    "bernoulli": "bernoulli",
    "partition": "partition",
    **{f"batch T={T}": f"batch_partition:T={T}" for T in (2, 3, 4, 6)},
    **{f"half T={T}": f"half_partition:T={T}" for T in (2, 4, 6)},
    "all": "all",
}
FAILING = "devices.failure={name: bernoulli, probability: 0.01}"
SUMS = "secagg={name: secagg, execute: cost_only}"
STAGE = "privacy.stages=[{{name: gaussian_sum, z: {z}, of: {of}}}]"
BLOCKS = {
    "plain": (),
    "secagg": (SUMS,),
    "secagg, 1 % fail, drop_unit": (SUMS, FAILING),
    "secagg, 1 % fail, partial": (SUMS, FAILING, "training.on_failure=partial"),
    "fedbuff, basecagg": (
        "secagg={name: basecagg, execute: cost_only}",
        "training.name=fedbuff",
        f"training.buffer={K}",
        f"training.concurrency={K}",
        "training.staleness=polynomial",
    ),
    **{f"distributed noise z={z}": (SUMS, STAGE.format(z=z, of=K)) for z in Z},
    f"central noise z={Z[1]}": (SUMS, STAGE.format(z=Z[1], of=0)),
}
BASE = {
    "clients": 48,
    "selection": {"name": "random", "k": K},
    "devices": {"computation": {"name": "random", "distribution": {"name": "half_normal", "sigma": 1.0}}},
    "training": {"name": "fedavg", "rounds": ROUNDS, "local_steps": 1, "batch_size": 20, "weighting": "equal"},
    "privacy": {"name": "multi_round", "every": 0, "budget": 20_000_000},
    "plugins": [str(HERE / "plugins.py")],
}
ATTACKS = [
    {"name": "least_squares", "every": ROUNDS // 2},
    {"name": "least_squares", "view": "public", "every": ROUNDS // 2},
    {"name": "membership", "game": "in_client", "clients": list(range(48)), "window": 20},
]
DATA = {
    "digits": {
        "learning": {"data": "digits", "model": "mlp", "partition": {"name": "few", "alone": 4, "each": 26},
                     "evaluate": {"every": ROUNDS}},
        "attacks": [*ATTACKS, {"name": "inversion", "method": "analytic"}],
    },
    "mnist": {
        "learning": {"data": "mnist", "model": "lenet5", "partition": {"name": "few", "alone": 4, "each": 60},
                     "evaluate": {"every": ROUNDS, "samples": 2000}},
        "attacks": [*ATTACKS, {"name": "inversion", "method": "cosine", "steps": 300, "restarts": 1}],
    },
}  # fmt: skip


def epsilon(result, z: float) -> float:
    """Of (epsilon, 1e-5) for the client that took part most: rho = n / (2 z^2), Bun and Steinke 2016."""
    rho = pandas.read_csv(result.path / "participation.csv").client.value_counts().max() / (2 * z * z)
    return rho + 2 * sqrt(rho * log(1 / DELTA))


def cells(result, block: str) -> list[dict]:
    rows = []
    summary, last = result.summary, pandas.read_csv(result.path / "attacks.csv")
    rank = last[(last.attack == 0) & (last.name == "recovery_rank")].value.iloc[-1]
    views = {"server": ""} | ({"public": "public_"} if "central" in block else {})
    z = float(block.rpartition("=")[2]) if "noise" in block else None
    for view, prefix in views.items():
        rows.append(
            {
                "view": view,
                "rank": int(rank),
                "floor": summary[f"{prefix}recovery_floor"],
                "error": summary[f"{prefix}recovery_error"],
                "expected": summary[f"{prefix}recovery_expected"],
                "weighted": summary[f"{prefix}recovery_weighted"],
                "recovered": summary[f"{prefix}recovered_clients"],
                "strong": summary["privacy_strong"],
                "semi_strong": summary["privacy_semi_strong"],
                "weak": summary["privacy_weak_lower"],
                "psnr_over_guess": summary["inversion_psnr"] - summary["inversion_guess_psnr"],
                "auc": summary["membership_auc"],
                "tpr_1": summary["membership_tpr_1"],
                "accuracy": summary["test_accuracy"],
                "epsilon": None if z is None else epsilon(result, z),
            }
        )
    return rows


def draw(table: pandas.DataFrame, data: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 8})
    import numpy as np
    from matplotlib import pyplot

    table = table.assign(column=table.block + np.where(table.view == "public", ", public", ""))
    names = list(dict.fromkeys(table.column))
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4.2), layout="constrained", sharey=True)
    shown = {"error": ("Recovery error", (0, 1)), "auc": ("Membership AUC", (0.5, 0.7)),
             "accuracy": ("Test accuracy", (0, 1))}  # fmt: skip
    for axis, (key, (title, limits)) in zip(axes, shown.items()):
        grid = table.pivot(index="policy", columns="column", values=key).reindex(index=list(POLICIES), columns=names)
        axis.imshow(grid, aspect="auto", cmap="cividis", vmin=limits[0], vmax=limits[1])
        for (row, column), value in np.ndenumerate(grid.to_numpy(dtype=float)):
            if np.isfinite(value):
                dark = value < sum(limits) / 2
                axis.text(column, row, f"{value:.2f}" if value < 99 else "≫1", ha="center", va="center", fontsize=6,
                          color="white" if dark else "black")  # fmt: skip
        axis.set_title(title)
        axis.set_xticks(range(len(names)), names, rotation=55, ha="right")
        axis.set_yticks(range(len(POLICIES)), list(POLICIES))
    figure.savefig(HERE / f"{data}.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=DATA, default="digits")
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    rows = []
    for block, changes in BLOCKS.items():
        for name, policy in POLICIES.items():
            chosen = [*changes, f"selection={policy}"]
            try:
                result = simfl.run(
                    BASE | {"name": f"attacks_{options.data}"} | DATA[options.data], chosen, out=options.out
                )
            except SimflError as error:  # e.g. everybody at once under FedBuff
                print(f"{block}, {name}: {error}", flush=True)
                continue
            rows += [{"policy": name, "block": block, **row} for row in cells(result, block)]
            print(block, name, {k: rows[-1][k] for k in ("rank", "error", "auc", "accuracy")}, flush=True)
            table = pandas.DataFrame(rows)
            table.to_csv(HERE / f"{options.data}.csv", index=False, float_format="%.4g")
    draw(table, options.data)


if __name__ == "__main__":
    main()
