"""Clients that attack, on MNIST: three attacks and three aggregates; units as buckets; liars under Oort; five seeds.

    python results/attackers/attackers.py [--out results]

40 clients, of whom 8 attack. Writes beside this file seeds.csv, one row a run, and attackers.csv, one row a
configuration with means and standard deviations over the seeds. Finished runs are used again.
"""

import argparse
from pathlib import Path

import pandas

import simfl
from simfl.runs.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SEEDS = 5
SCENARIO = """
name: attackers
clients: 40
network: {name: star, latency_s: {name: uniform, low: 0.05, high: 0.3}}
devices: {computation: {name: random, distribution: {name: exponential, mean: 1.0}}}
selection: {name: batch_partition, k: 20, T: 4}
training: {name: fedavg, rounds: 20, batch_size: 20, learning_rate: 0.1, weighting: equal}
learning:
  data: {name: mnist, samples: 2000}
  partition: {name: dirichlet, beta: 1.0}
  model: logistic
  evaluate: 20
privacy: none
secagg: plain
metrics: [attackers]
"""
TOGETHER, APART = "0-7", "0, 4, 8, 12, 16, 20, 24, 28"
"""Eight attackers in two units of four, or one in each of eight units."""
ATTACKS = {"none": "standard", "sign flip": "sign_flip", "ALIE": "alie", "min-max": "min_max"}
AGGREGATES = {
    "mean": "mean",
    "multi-Krum": "{name: multi_krum, f: 4}",
    "geometric median": "geometric_median",
}
UNITS = {
    "mean": "mean",
    "updates": "geometric_median",
    "units": "{name: bucketed, rule: geometric_median, size: 4, by: clients}",
}


def configurations() -> dict[tuple[str, str, str, str], list[str]]:
    """The overrides of each: part, attack, aggregate, and where the attackers are."""
    every: dict[tuple[str, str, str, str], list[str]] = {}

    def attack(agent: str, clients: str) -> str:
        return f'agents.client={{name: mixed, groups: [{{agent: {agent}, clients: "{clients}"}}]}}'

    for name, agent in ATTACKS.items():
        for aggregate, text in AGGREGATES.items():
            every["aggregates", name, aggregate, "apart"] = [
                "selection={name: random, k: 20}", attack(agent, APART), f"training.aggregate={text}"
            ]  # fmt: skip
    for where, clients in (("together", TOGETHER), ("apart", APART)):
        for aggregate, text in UNITS.items():
            every["units", "sign flip", aggregate, where] = [attack("sign_flip", clients), f"training.aggregate={text}"]
    for factor in (1, 10):
        every["oort", f"losses times {factor}", "mean", "apart"] = [
            "selection={name: oort, k: 8, scalars: clear}", "secagg=ideal", "privacy=multi_round",
            attack(f"{{name: liar, losses: {factor}}}", APART),
        ]  # fmt: skip
    return every


def measures(path: Path) -> dict[str, float]:
    """What one run came to."""
    result = simfl.open(path)
    rounds, summed = result.rounds, result.participation.sum(axis=0)
    liars = [int(client) for client in APART.split(", ")]
    return {
        "test_accuracy": float(rounds["test_accuracy"].dropna().iloc[-1]),
        "attacker_share": float(rounds["attacker_share"].mean()),
        "selected_share": float(summed[liars].sum() / summed.sum()),
        "fairness_gap": float(rounds["fairness_gap"].iloc[-1]),
        "honest_never_summed": int((summed == 0).sum() - (summed[liars] == 0).sum()),
    }


def main() -> None:
    """Plays and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results"))
    out = parser.parse_args().out
    rows = []
    for key, overrides in configurations().items():
        for seed in range(SEEDS):
            made = run(Scenario.parse(SCENARIO, "attackers", [*overrides, f"seed={seed}"]), out)
            rows.append(dict(zip(("part", "attack", "aggregate", "where"), key)) | {"seed": seed} | measures(made.path))
    table = pandas.DataFrame(rows)
    table.round(6).to_csv(HERE / "seeds.csv", index=False)
    values = [name for name in table.columns if name not in ("part", "attack", "aggregate", "where", "seed")]
    groups = table.groupby(["part", "attack", "aggregate", "where"], sort=False)[values]
    means, stds = groups.mean(), groups.std().add_suffix("_std")
    pandas.concat([means, stds], axis=1).round(4).reset_index().to_csv(HERE / "attackers.csv", index=False)


if __name__ == "__main__":
    main()
