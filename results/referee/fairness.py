"""The fairness gap beside what chance alone makes of it, seed by seed, of the runs of results/policies/seeds.csv.

    python results/referee/fairness.py

Runs nothing. Chance is what uniform selection of as many clients in as many sums gives on average
(``simfl.experiments.compare.run_numbers``); clients in a sum are of the rounds that were summed. Writes fairness.csv
beside this file, a row a world, policy and seed.
"""

from pathlib import Path

import pandas

from simfl.experiments.compare.run_numbers import measures

HERE = Path(__file__).resolve().parent
CLIENTS, ROUNDS = 40, 60
"""Of the quickstart scenario."""


def table() -> pandas.DataFrame:
    """The rows."""
    rows = []
    for row in pandas.read_csv(HERE.parent / "policies" / "seeds.csv").to_dict("records"):
        summary = {name: row[name] for name in ("skipped", "mean_cardinality", "fairness_gap")}
        found = measures({**summary, "rounds": ROUNDS, "clients": CLIENTS})
        known = {name: row[name] for name in ("world", "selection", "seed", "fairness_gap")}
        chance = row["fairness_gap"] - found["fairness_excess"]
        rows.append({**known, "chance": chance, "fairness_excess": found["fairness_excess"],
                     "clients_in_sum": found["clients_in_sum"]})  # fmt: skip
    return pandas.DataFrame(rows).round(6)


if __name__ == "__main__":
    table().to_csv(HERE / "fairness.csv", index=False, lineterminator="\n")
