"""Figure 9 of Multi-RoundSecAgg (arXiv 2106.03328): images out of what least squares recovers for T = 1, 2 and 4.

    python results/attacks/figure9.py [--steps 800] [--seeds 5]

16 clients with one MNIST image each, 4 a round under secure aggregation, LeNet-5 that stands still at its initial
weights (server learning rate 1e-6), so that the sums of 40 rounds tell all that the policy lets them tell. What least
squares recovers of four clients is inverted by gradient matching, which looks for T images: a unit's sum is one client
with T samples, and the image nearest to the client's own counts. Writes figure9.csv (one row a seed, T and client;
seeds that are in it are not played again) and figure9.svg (of seed 0, with medians over the clients), and prints each
seed's medians with their mean and its 95 % interval.
"""

from pathlib import Path

import numpy as np
import pandas

from simfl.attacks.inversion import psnr, ssim
from simfl.experiments import runner
from simfl.experiments.compare.intervals import mean
from simfl.runs.run import build
from simfl.runs.simulation import run_in_memory
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
UNITS = 1, 2, 4
HELD = {"name": "few", "alone": 16}
BASE = {
    "clients": 16,
    "selection": {"name": "batch_partition", "k": 4},
    "training": {"name": "fedavg", "rounds": 40, "local_steps": 1, "batch_size": 1, "server_learning_rate": 1e-6,
                 "weighting": "equal"},
    "learning": {"data": "mnist", "model": "lenet5", "partition": HELD, "evaluate": {"every": 0},
                 "backend": "sequential"},
    "secagg": {"name": "secagg", "execute": "cost_only"},
    "privacy": "none",
    "plugins": [str(HERE / "plugins.py")],
}  # fmt: skip


def recovered(T: int, seed: int, steps: int) -> tuple:
    """The pictures of a policy."""
    attack = {"name": "inversion", "samples": T, "steps": steps, "restarts": 2}
    overrides = [f"selection.T={T}", f"seed={seed}"]
    parts = build(Scenario.of(BASE | {"attacks": [attack]}, overrides=overrides))
    return run_in_memory(parts).attack_results[0].pictures


def images(seed: int, steps: int) -> dict[str, list]:
    """The true images, those recovered for each T, and the guess, client by client."""
    shown = {T: recovered(T, seed, steps) for T in UNITS}
    return {
        "true image": [p.true for p in shown[1]],
        **{f"T = {T}": [p.recovered for p in shown[T]] for T in UNITS},
        "mean image": [p.guess for p in shown[1]],
    }


def scores(columns: dict[str, list], seed: int) -> pandas.DataFrame:
    """Rows of figure9.csv: how like the true images the others are."""
    true = columns["true image"]
    rows = [
        {"seed": seed, "shown": name, "client": i, "psnr": psnr(image, found), "ssim": ssim(image, found)}
        for name, pictures in list(columns.items())[1:]
        for i, (image, found) in enumerate(zip(true, pictures))
    ]
    return pandas.DataFrame(rows).round({"psnr": 2, "ssim": 4})


def medians(table: pandas.DataFrame) -> pandas.DataFrame:
    """Medians over the clients of each seed, and over the seeds the mean and its 95 % interval."""
    of_seed = table.groupby(["shown", "seed"]).psnr.median().unstack()
    intervals = [mean(values.to_numpy()) for _, values in of_seed.iterrows()]
    return of_seed.assign(mean=[i.estimate for i in intervals], low=[i.lower for i in intervals],
                          high=[i.upper for i in intervals])  # fmt: skip


def markdown(table: pandas.DataFrame) -> str:
    """A table: medians over the clients, their mean over the seeds with its interval."""
    lines = ["| image | PSNR, dB | each seed's median |", "|---|---|---|"]
    for row in medians(table).itertuples():
        each = ", ".join(f"{value:.1f}" for value in row[1:-3])
        lines.append(f"| {row.Index} | {row.mean:.1f} ({row.low:.1f} to {row.high:.1f}) | {each} |")
    return "\n".join(lines) + "\n"


def draw(columns: dict[str, list], median: pandas.Series) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 8})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(columns["true image"]), len(columns), figsize=(5.6, 4.6), layout="constrained")
    for (row, column), axis in np.ndenumerate(axes):
        name = list(columns)[column]
        axis.imshow(columns[name][row][0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set(xticks=[], yticks=[])
        if row == 0:
            axis.set_title(name if name == "true image" else f"{name}\n{median[name]:.1f} dB")
    figure.savefig(HERE / "figure9.svg", metadata={"Date": None})


def main() -> None:
    parser = runner.parser(__doc__, seeds=5, shards=False)
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args()
    file = HERE / "figure9.csv"
    table = pandas.read_csv(file) if file.exists() else pandas.DataFrame({"seed": []})
    for seed in runner.seeds_left(options, table, seconds=200):
        columns = images(seed, options.steps)
        table = pandas.concat([table, scores(columns, seed)], ignore_index=True).astype({"seed": int, "client": int})
        table.to_csv(file, index=False)
        if seed == 0:
            draw(columns, table[table.seed == 0].groupby("shown").psnr.median())
        print(medians(table).to_string(), flush=True)


if __name__ == "__main__":
    main()
