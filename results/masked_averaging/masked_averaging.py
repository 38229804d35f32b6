"""Gradient-masked against plain averaging in four arms, written beside this file.

    python results/masked_averaging/masked_averaging.py published [--rounds 100] [--seeds 3] [--out results]

Runs scenarios/masked_averaging.yaml with the mean, the mean times the mask's mean (the control), the masked mean, and
the masked mean divided by the mask's mean, under the same draws, seed after seed (finished runs are reused):

    published   ten clients, all of them, 112 steps of a round (of 112 to 188), rates around the thesis' extremes
                (its Table B.7)
    grid        mean and mask at all 25 pairs of rates of Table B.7, 20 steps a round
    clients     10 to 250 clients, one local epoch (Table B.8)
    epochs      ten clients with twenty local epochs, and few_epochs with three, five and ten (Table B.9)
    colours     MNIST in the colours of its classes, other colours in the test part
    rotation    MNIST turned by an angle of its class, the test part upright
    convex_iid, convex_skew
                logistic regression on MNIST with one step of each client a round (section 3.5.4 of the thesis)

and writes <table>.csv: test accuracy in per cent of each arm, mean over the seeds of the mean over the last five
evaluations (of every second round; of `epochs`, every round), the mask's mean over all rounds, and the paired
differences to the plain mean, and of the masked mean to the control, with their 95 % intervals. Seeds in which the mean
or the masked mean diverged are left out, and a control that diverged in another seed; all are counted.
"""

import math
from pathlib import Path
from typing import Any

import pandas

import simfl
from simfl.experiments import runner
from simfl.experiments.compare.intervals import mean, paired_difference
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "masked_averaging.yaml"
ARMS = {
    "mean": "mean",
    "shrunk": "{name: shrunk, tau: 0.4}",
    "masked": "{name: masked, tau: 0.4}",
    "rescaled": "{name: masked, tau: 0.4, rescale: all}",
}
PAIRS = (("masked", "mean"), ("shrunk", "mean"), ("rescaled", "mean"), ("masked", "shrunk"))
USUAL = ({"learning_rate": 0.01, "server_learning_rate": 1.0},)


def rates(*pairs: tuple[float, float]) -> tuple[dict[str, float], ...]:
    """Rows of a table by the learning rates of clients and server."""
    return tuple({"learning_rate": one, "server_learning_rate": other} for one, other in pairs)


PUBLISHED = rates((0.01, 2.0), (0.01, 1.0), (0.05, 2.0), (0.1, 0.01), (0.05, 0.1), (0.05, 1.0))
GRID = rates(*((one, other) for other in (0.01, 0.1, 1.0, 1.5, 2.0) for one in (0.001, 0.01, 0.05, 0.1, 1.0)))
MNIST = {"learning.data": "mnist"}
CONVEX = MNIST | {"learning.model": "logistic", "training.local_steps": "1", "learning.evaluate": "100"}
TABLES: dict[str, tuple[tuple[dict[str, float], ...], dict[str, str]]] = {
    "published": (PUBLISHED, {"training.local_steps": "112"}),
    "grid": (GRID, {"training.local_steps": "20"}),
    "clients": (tuple(USUAL[0] | {"clients": n} for n in (10, 50, 100, 250)), {}),
    "epochs": (USUAL, {"training.local_epochs": "20", "learning.evaluate": "1"}),
    "few_epochs": (tuple(USUAL[0] | {"local_epochs": n} for n in (3, 5, 10)), {"learning.evaluate": "1"}),
    "colours": (USUAL, MNIST | {"learning.transform": "colours"}),
    "rotation": (USUAL, MNIST | {"learning.transform": "rotation"}),
    "convex_iid": (USUAL, CONVEX | {"learning.partition": "iid"}),
    "convex_skew": (USUAL, CONVEX),
}
"""What the rows change, by its columns, and what else is changed in all."""

LAST = 5
SECONDS = {"published": 4, "grid": 1, "clients": 5, "epochs": 90, "few_epochs": 27, "convex_iid": 0.02,
           "convex_skew": 0.02}  # fmt: skip
"""Processor seconds of a round, about; of the others 7."""


def scenario(arm: str, seed: int, table: str, case: dict[str, float], rounds: int) -> Scenario:
    """One run: an arm and seed of a row."""
    changes = {
        "training.aggregate": ARMS[arm],
        "training.rounds": str(rounds),
        "learning.evaluate": "2",
        "learning.backend": "grouped",
    } | TABLES[table][1]
    changes |= {key if key == "clients" else f"training.{key}": str(value) for key, value in case.items()}
    return runner.scenario(SCENARIO, changes, seed)


def measures(folder: Path) -> dict[str, float]:
    """What one run comes to."""
    result = simfl.open(folder)
    rounds, diverged = result.rounds, result.summary.get("diverged_round") is not None
    found = {"accuracy": math.nan if diverged else 100 * float(rounds.test_accuracy.dropna().tail(LAST).mean())}
    return found | ({"mask_mean": float(rounds.mask_mean.mean())} if "mask_mean" in rounds else {})


def row(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Means and paired differences of the arms, except controls that diverged, over the seeds in which mean and mask
    did not.
    """
    told = pandas.DataFrame({arm: [each["accuracy"] for each in values] for arm, values in found.items()})
    whole = told[[arm for arm in ("mean", "masked") if arm in told]].notna().all(axis=1)
    diverged = "; ".join(f"{arm} {count}" for arm, count in told.isna().sum().items() if count)
    cells: dict[str, Any] = {"seeds": int(whole.sum()), "diverged": diverged}
    if not whole.any():
        return cells
    accuracy = {arm: values.tolist() for arm, values in told[whole].items() if values.notna().all()}
    cells |= {arm: mean(values).estimate for arm, values in accuracy.items()}
    masks = [each["mask_mean"] for each, kept in zip(found["masked"], whole, strict=True) if kept]
    cells["mask_mean"] = mean(masks).estimate
    for one, other in (pair for pair in PAIRS if set(pair) <= set(accuracy)):
        gap = paired_difference(accuracy[one], accuracy[other])
        cells |= {f"{one}_{other}": gap.estimate, f"{one}_{other}_low": gap.lower, f"{one}_{other}_high": gap.upper}
    return cells


def main() -> None:
    parser = runner.parser(__doc__, seeds=3)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--rates", type=int, help="the first so many rows of the table")
    options = parser.parse_args()
    cases = dict(enumerate(TABLES[options.table][0][: options.rates]))
    runs = {
        (case, seed, arm): scenario(arm, seed, options.table, cases[case], options.rounds)
        for seed in range(options.seeds)
        for case in cases
        for arm in options.arms
    }
    folders = runner.run_all(runs, options, options.rounds * SECONDS.get(options.table, 7))
    rows: list[dict[str, Any]] = []
    for case, named in cases.items():
        found: dict[str, list[dict[str, float]]] = {arm: [] for arm in options.arms}
        for seed in range(options.seeds):
            if all((case, seed, arm) in folders for arm in options.arms):
                for arm in options.arms:
                    found[arm].append(measures(folders[case, seed, arm]))
        if found["mean"]:
            rows.append(named | {"rounds": options.rounds} | row(found))
    if not rows:
        raise SystemExit("no row has all its runs; no table is written")
    pandas.DataFrame(rows).to_csv(HERE / f"{options.table}.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
