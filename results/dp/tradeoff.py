"""What differential privacy costs: accuracy against epsilon, epsilon against drops, epsilon beside the guarantees T.

    python results/dp/tradeoff.py [--seeds 5] [--out results] [--only FIGURE]

Runs scenarios/dp_tradeoff.yaml for every mechanism, noise, drop rate, policy and seed (finished runs are reused) and
writes accuracy, dropout and policies beside this file, each as .csv and .svg: means over the seeds
and, in the columns that end in _half_width, half the width of their 95 % intervals (Student); and ..._seeds.csv with a
row a run.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
from scipy import stats
from tradeoff_drawing import HERE, drawn

from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.runs.run import run
from simfl.scenario import Scenario

SCENARIO = HERE.parent.parent / "scenarios" / "dp_tradeoff.yaml"
FIELD = "secagg={name: secagg, execute: cost_only, threshold: 0.3}"
MULTIPLIERS = (1.0, 2.0, 4.0, 8.0)
MECHANISMS = {
    "central Gaussian": ("{{name: central_gaussian, noise_multiplier: {0}}}", MULTIPLIERS, ()),
    "tree (DP-FTRL)": ("{{name: tree_gaussian, noise_multiplier: {0}}}", MULTIPLIERS, ()),
    "Skellam, distributed": ("{{name: skellam, noise_multiplier: {0}}}", MULTIPLIERS, (FIELD,)),
    "local Gaussian": ("{{name: local_gaussian, epsilon: {0}}}", (1.0, 8.0, 64.0), ()),
}
DROPS = (0.0, 0.1, 0.2, 0.3, 0.4)
SHARED = {
    "central": ("{name: central_gaussian, noise_multiplier: 10}", ()),
    "shares for all": ("{name: skellam, noise_multiplier: 10}", (FIELD,)),
    "shares for 70 %": ("{name: skellam, noise_multiplier: 10, sharers: 35}", (FIELD,)),
    "XNoise, T = 30 %": ("{name: xnoise, noise_multiplier: 10, tolerance: 15}", (FIELD,)),
}
POLICIES = {
    "all": "all",
    "random": "random:k=24",
    "bernoulli": "bernoulli:k=24",
    "weighted": "weighted:k=24",
    "partition": "partition:k=24",
    "batch T=8": "batch_partition:k=24,T=8",
    "half T=8": "half_partition:k=24,T=8",
}


KEYS = ("mechanism", "noise", "dropout", "policy")
Tables = list[pandas.DataFrame]
"""What is varied; and of each setting the values of its runs, a row a seed."""


def played(overrides: tuple[str, ...], seeds: int, out: Path, by_seed: Tables) -> dict[str, Any]:
    """The means of the summaries' values over the seeds, and half the widths of their intervals; the values themselves
    are added to ``by_seed``.
    """
    runs = [run(Scenario.load(SCENARIO, [*overrides, f"seed={seed}"]), out, resume=True).path for seed in range(seeds)]
    table = pandas.DataFrame([Result.open(path).summary for path in runs])
    names = ["test_accuracy", "epsilon_max", "epsilon_median", "privacy_semi_strong", "privacy_weak_lower",
             "mean_cardinality", "skipped"]  # fmt: skip
    values = table[[name for name in names if name in table]].astype(float)
    by_seed.append(values.assign(seed=range(seeds)))
    half = stats.t.ppf(0.975, values.count() - 1) * values.sem()
    found = {"seeds": seeds}
    for name in values:
        found |= {name: round(float(values[name].mean()), 4), f"{name}_half_width": round(float(half[name]), 4)}
    return found


def accuracy(seeds: int, out: Path, by_seed: Tables) -> Iterator[dict[str, Any]]:
    """Every mechanism at every size of its noise; epsilon is of the client in most rounds, delta 1e-5."""
    fixed = ("training.rounds=30", "privacy=none")
    for name, (stage, sizes, more) in MECHANISMS.items():
        for size in sizes:
            stages = f"privacy.stages=[{stage.format(size)}]"
            yield {"mechanism": name, "noise": size} | played((stages, *more, *fixed), seeds, out, by_seed)
    yield {"mechanism": "no noise", "noise": 0.0} | played(("privacy.stages=[]", *fixed), seeds, out, by_seed)


def dropout(seeds: int, out: Path, by_seed: Tables) -> Iterator[dict[str, Any]]:
    """60 rounds of the same 50 clients, z = 10, of whom a share fails in every round."""
    fixed = ("privacy=none", "clients=50", "selection=random:k=50", "learning=none", "devices.availability=always")
    for name, (stage, more) in SHARED.items():
        for drop in DROPS:
            failing = f"devices.failure={{name: bernoulli, probability: {drop}}}"
            overrides = (f"privacy.stages=[{stage}]", *more, *fixed, failing)
            found = played(overrides, seeds, out, by_seed)
            yield {"noise": name, "dropout": drop} | found


def policies(seeds: int, out: Path, by_seed: Tables) -> Iterator[dict[str, Any]]:
    """100 rounds of 96 clients, z = 4, whole units, few drops: what the policy decides."""
    stage = "privacy.stages=[{name: central_gaussian, noise_multiplier: 4}]"
    fixed = (stage, "clients=96", "learning=none", "training.rounds=100", "training.on_failure=drop_unit",
             "devices.availability.dropout=0.02", "devices.failure.probability=0.01",
             "privacy.budget=10000000")  # fmt: skip
    for name, selection in POLICIES.items():
        yield {"policy": name} | played((f"selection={selection}", *fixed), seeds, out, by_seed)


def main() -> None:
    parser = runner.parser(__doc__, seeds=5, costs=False)
    parser.add_argument("--only", choices=["accuracy", "dropout", "policies"])
    options = parser.parse_args()
    for make in (policies, dropout, accuracy):
        if options.only not in (None, make.__name__):
            continue
        rows, by_seed = [], Tables()
        for row in make(options.seeds, options.out, by_seed):
            rows.append(row)
            print(row, flush=True)
        keys = [{name: row[name] for name in KEYS if name in row} for row in rows]
        seeds = [values.assign(**key) for key, values in zip(keys, by_seed, strict=True)]
        runs = pandas.concat(seeds).dropna(axis=1, how="all")
        runs = runs[
            [*(name for name in KEYS if name in runs), "seed", *runs.columns.difference([*KEYS, "seed"], sort=False)]
        ]
        runs.to_csv(HERE / f"{make.__name__}_seeds.csv", index=False, lineterminator="\n")
        table = pandas.DataFrame(rows).dropna(axis=1, how="all")
        table.to_csv(HERE / f"{make.__name__}.csv", index=False, lineterminator="\n")
        drawn(make.__name__, table)


if __name__ == "__main__":
    main()
