"""Figure 9 of Multi-RoundSecAgg (arXiv 2106.03328): images out of what least squares recovers for T = 1, 2 and 4.

    python results/attacks/figure9.py [--steps 800] [--seed 0]

16 clients with one MNIST image each, 4 a round under secure aggregation, LeNet-5 that stands still at its initial
weights (server learning rate 1e-6), so that the sums of 40 rounds tell all that the policy lets them tell. What least
squares recovers of four clients is inverted by gradient matching, which looks for T images: a unit's sum is one client
with T samples, and the image nearest to the client's own counts. Writes figure9.csv and
figure9.svg, with medians over the clients.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas

from simfl.attacks.image_similarity import psnr, ssim
from simfl.runs.in_memory import play
from simfl.runs.run import build
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


def recovered(T: int, options: argparse.Namespace) -> tuple:
    """The pictures of a policy."""
    attack = {"name": "inversion", "samples": T, "steps": options.steps, "restarts": 2}
    overrides = [f"selection.T={T}", f"seed={options.seed}"]
    return play(build(Scenario.of(BASE | {"attacks": [attack]}, overrides=overrides))).attack_results[0].pictures


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 8})
    from matplotlib import pyplot

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shown = {T: recovered(T, options) for T in UNITS}
    columns = {
        "true image": [p.true for p in shown[1]],
        **{f"T = {T}": [p.recovered for p in shown[T]] for T in UNITS},
        "mean image": [p.guess for p in shown[1]],
    }
    rows = [
        {"shown": name, "client": i, "psnr": psnr(p.true, found), "ssim": ssim(p.true, found)}
        for name, pictures in list(columns.items())[1:]
        for i, (p, found) in enumerate(zip(shown[1], pictures))
    ]
    table = pandas.DataFrame(rows)
    table.to_csv(HERE / "figure9.csv", index=False, float_format="%.4g")
    median = table.groupby("shown").psnr.median()
    print(median)
    figure, axes = pyplot.subplots(len(shown[1]), len(columns), figsize=(5.6, 4.6), layout="constrained")
    for (row, column), axis in np.ndenumerate(axes):
        name = list(columns)[column]
        axis.imshow(columns[name][row][0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set(xticks=[], yticks=[])
        if row == 0:
            axis.set_title(name if name == "true image" else f"{name}\n{median[name]:.1f} dB")
    figure.savefig(HERE / "figure9.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
