"""Gradient-masked against plain averaging in four arms, written beside this file.

    python results/masked_averaging/masked_averaging.py published [--rounds 100] [--seeds 3] [--out results]

Runs scenarios/masked_averaging.yaml with the mean, the mean times the mask's mean (the control), the masked mean, and
the masked mean divided by the mask's mean, under the same draws, seed after seed (finished runs are reused):

    published   ten clients, all of them, 112 steps of a round (of 112 to 188), rates around the thesis' extremes
                (its Table B.7)
    epochs      the same with twenty local epochs (Table B.9)
    colours     MNIST in the colours of its classes, other colours in the test part
    rotation    MNIST turned by an angle of its class, the test part upright
    convex_iid, convex_skew
                logistic regression on MNIST with one step of each client a round (section 3.5.4 of the thesis)

and writes <table>.csv: test accuracy in per cent of each arm, mean over the seeds of the mean over the last five
evaluations (of every second round; of `epochs`, every round), the mask's mean over all rounds, and the paired
differences to the plain mean, and of the masked mean to the control, with their 95 % intervals. Seeds in which an arm
diverged are left out, and counted.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import pandas

import simfl
from simfl.experiments.compare.intervals import mean, paired_difference

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "masked_averaging.yaml"
ARMS = {
    "mean": "mean",
    "shrunk": "{name: shrunk, tau: 0.4}",
    "masked": "{name: masked, tau: 0.4}",
    "rescaled": "{name: masked, tau: 0.4, rescale: all}",
}
PAIRS = (("masked", "mean"), ("shrunk", "mean"), ("rescaled", "mean"), ("masked", "shrunk"))
PUBLISHED = ((0.01, 2.0), (0.01, 1.0), (0.05, 2.0), (0.1, 0.01), (0.05, 0.1), (0.05, 1.0))
MNIST = {"learning.data": "mnist"}
CONVEX = MNIST | {"learning.model": "logistic", "training.local_steps": "1", "learning.evaluate": "100"}
TABLES: dict[str, tuple[tuple[tuple[float, float], ...], dict[str, str]]] = {
    "published": (PUBLISHED, {"training.local_steps": "112"}),
    "epochs": (((0.01, 1.0),), {"training.local_epochs": "20", "learning.evaluate": "1"}),
    "colours": (((0.01, 1.0),), MNIST | {"learning.transform": "colours"}),
    "rotation": (((0.01, 1.0),), MNIST | {"learning.transform": "rotation"}),
    "convex_iid": (((0.01, 1.0),), CONVEX | {"learning.partition": "iid"}),
    "convex_skew": (((0.01, 1.0),), CONVEX),
}
"""Learning rates of clients and server, and what else is changed."""

LAST = 5


def play(arm: str, seed: int, changes: dict[str, str], options: argparse.Namespace) -> dict[str, float] | None:
    """What one arm comes to; None where only finished runs count, and this is not."""
    changes = {
        "seed": str(seed),
        "training.aggregate": ARMS[arm],
        "training.rounds": str(options.rounds),
        "learning.evaluate": "2",
        "learning.backend": "grouped",
    } | changes
    scenario = simfl.load(SCENARIO, [f"{key}={value}" for key, value in changes.items()])
    if options.finished and not (Path(options.out) / scenario.name / scenario.digest / "summary.json").exists():
        return None
    result = simfl.run(scenario, out=options.out)
    rounds, diverged = result.rounds, result.summary.get("diverged_round") is not None
    found = {"accuracy": math.nan if diverged else 100 * float(rounds.test_accuracy.dropna().tail(LAST).mean())}
    return found | ({"mask_mean": float(rounds.mask_mean.mean())} if "mask_mean" in rounds else {})


def row(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Means and paired differences of the arms over the seeds in which none of them diverged."""
    told = pandas.DataFrame({arm: [each["accuracy"] for each in values] for arm, values in found.items()})
    whole = told.notna().all(axis=1)
    diverged = "; ".join(f"{arm} {count}" for arm, count in told.isna().sum().items() if count)
    cells: dict[str, Any] = {"seeds": int(whole.sum()), "diverged": diverged}
    if not whole.any():
        return cells
    accuracy = {arm: told.loc[whole, arm].tolist() for arm in told}
    cells |= {arm: mean(values).estimate for arm, values in accuracy.items()}
    masks = [each["mask_mean"] for each, kept in zip(found["masked"], whole, strict=True) if kept]
    cells["mask_mean"] = mean(masks).estimate
    for one, other in (pair for pair in PAIRS if set(pair) <= set(accuracy)):
        gap = paired_difference(accuracy[one], accuracy[other])
        cells |= {f"{one}_{other}": gap.estimate, f"{one}_{other}_low": gap.lower, f"{one}_{other}_high": gap.upper}
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--rates", type=int, default=len(PUBLISHED), help="the first so many pairs of rates")
    parser.add_argument("--finished", action="store_true", help="run nothing; tabulate the runs that are finished")
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    rates, changes = TABLES[options.table]
    rows: list[dict[str, Any]] = []
    for rate, server_rate in rates[: options.rates]:
        both = {"training.learning_rate": str(rate), "training.server_learning_rate": str(server_rate)}
        found: dict[str, list[dict[str, float]]] = {arm: [] for arm in options.arms}
        for seed in range(options.seeds):
            played = {arm: play(arm, seed, changes | both, options) for arm in options.arms}
            print(rate, server_rate, seed, played, flush=True)
            for arm, values in played.items():
                if values is not None and None not in played.values():
                    found[arm].append(values)
        if found["mean"]:
            rows.append({"learning_rate": rate, "server_learning_rate": server_rate, "rounds": options.rounds})
            rows[-1] |= row(found)
            pandas.DataFrame(rows).to_csv(HERE / f"{options.table}.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
