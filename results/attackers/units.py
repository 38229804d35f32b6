"""Secure sums of units as buckets, attacks with a goal, and what lying to Oort costs the others, on MNIST; five seeds.

    python results/attackers/units.py [--out results] [--seeds N] [--shard I/N]

The scenario of attackers.py. Part "goal": 8 of 40 clients attack, of whom 20 are selected at random. Part "units": all
40 take part in units of T, of which the server learns one secure sum each (T = 1: each update as it is); four attack,
each in a unit of its own, or together. Part "liars": Oort selects 8 of 40 in 30 rounds under ideal sums, eight lie.
Writes beside this file units_seeds.csv, one row a run; attack_figure.py makes figure and tables of it. Finished runs
are used again, interrupted ones go on.
"""

from pathlib import Path

import numpy as np
from attackers import AGGREGATES, APART, SCENARIO

import simfl
from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
KEYS = ("part", "attack", "aggregate", "where", "T", "seed")
SIZES = (1, 2, 4, 5, 10)
ALONE, TOGETHER = "0, 10, 20, 30", "0-3"
"""Four attackers each in a unit of its own, or in as few units as hold four clients."""
ATTACKS = {"none": "standard", "sign flip": "sign_flip", "inner product": "{name: inner_product, factor: 10}"}
COMBINED = {"mean": "mean", "geometric median": "geometric_median"}
BACKDOOR = "{name: backdoor, target: 0, boost: 5}"
LIES, AFTER = (1, 10), (10, 20, 30)
SHOWN = ("honest_sums", "recovered_20", "recovered_most_20", "recovered_told_most_20")
"""What the page shows of honest clients."""
OORT = ("selection={name: oort, k: 8, scalars: clear}", "secagg=ideal", "training.rounds=30")


def attack(agent: str, clients: str) -> str:
    """Some clients with an agent, the others as usual."""
    return f'agents.client={{name: mixed, groups: [{{agent: {agent}, clients: "{clients}"}}]}}'


def configurations() -> dict[tuple[str, str, str, str, int], list[str]]:
    """The overrides of each: part, attack, aggregate, where the attackers are, and T."""
    every: dict[tuple[str, str, str, str, int], list[str]] = {}
    for aggregate, text in AGGREGATES.items():
        of_random = ["selection={name: random, k: 20}", f"training.aggregate={text}"]
        every["goal", "backdoor", aggregate, "apart", 1] = [*of_random, attack(BACKDOOR, APART)]
    for T in SIZES:
        secagg = "{name: unit_sums, protocol: {name: secagg, execute: cost_only}}" if T > 1 else "plain"
        units = [f"selection={{name: batch_partition, k: 40, T: {T}, mode: uniform}}", f"secagg={secagg}"]
        for aggregate, text in COMBINED.items():
            for name, agent in ATTACKS.items():
                for where, clients in {"apart": ALONE, "together": TOGETHER}.items():
                    if where == "apart" or name == "inner product":
                        rule = ["privacy=multi_round", f"training.aggregate={text}", attack(agent, clients)]
                        every["units", name, aggregate, where, T] = [*units, *rule]
    for factor in LIES:
        liars = attack(f"{{name: liar, losses: {factor}}}", APART)
        every["liars", f"losses times {factor}", "mean", "apart", 1] = [*OORT, liars]
    return every


def runs(seeds: int) -> dict[tuple[object, ...], Scenario]:
    """The runs by :data:`KEYS`."""
    return {
        (*key, seed): Scenario.parse(SCENARIO, "attackers", [*overrides, f"seed={seed}"])
        for key, overrides in configurations().items()
        for seed in range(seeds)
    }


def measures(folder: Path) -> dict[str, float]:
    """What one run came to; of runs under ideal sums what they tell the server of those who do not lie."""
    result = simfl.open(folder)
    rounds = result.rounds
    successes = rounds["attack_success"].dropna()
    row = {
        "test_accuracy": float(rounds["test_accuracy"].dropna().iloc[-1]),
        "attacker_share": float(rounds["attacker_share"].mean()),
        "attack_success": float(successes.iloc[-1]) if len(successes) else float("nan"),
        "privacy_weak": float(rounds["privacy_weak_lower"].fillna(1).iloc[-1]),
    }
    return row | (_of_the_honest(result) if result.scenario.secagg.assumes else {})


def _of_the_honest(result: Result) -> dict[str, float]:
    """Of the square of an honest client's update the share that least squares recovers of the sums so far, mean and
    largest over these clients: for the server alone, and for the server with the eight, who know their own updates.
    """
    matrix = (result.participation.toarray() > 0).astype(float)
    liars = [int(client) for client in APART.split(", ")]
    honest = np.setdiff1d(np.arange(matrix.shape[1]), liars)
    row = {
        "liars_share": float(matrix[:, liars].sum() / matrix.sum()),
        "honest_sums": float(matrix[:, honest].sum(axis=0).mean()),
    }
    for t in AFTER:
        alone = np.einsum("ij,ji->i", np.linalg.pinv(matrix[:t]), matrix[:t])[honest]
        told = np.einsum("ij,ji->i", np.linalg.pinv(matrix[:t, honest]), matrix[:t, honest])
        row |= {f"recovered_{t}": alone.mean(), f"recovered_most_{t}": alone.max()}
        row |= {f"recovered_told_{t}": told.mean(), f"recovered_told_most_{t}": told.max()}
    return row


def main() -> None:
    options = runner.parser(__doc__, seeds=5).parse_args()
    folders = runner.run_all(runs(options.seeds), options, seconds=5)
    runner.by_seed(KEYS, folders, measures).round(6).to_csv(HERE / "units_seeds.csv", index=False)


if __name__ == "__main__":
    main()
