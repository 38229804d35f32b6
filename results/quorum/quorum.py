"""Over-selection: rounds that go on with the first 12 of k clients, for k = 12, 16, 20, 24 and three policies.

    python results/quorum/quorum.py [--out results]

Sweeps scenarios/quorum.yaml over selection.k, selection and five seeds (60 runs; finished ones are used again). Writes
beside this file quorum.csv, one row a policy and k with means and standard deviations over the seeds, seeds.csv, one
row a run, and quorum.svg.
"""

from pathlib import Path

import pandas

import simfl
from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.report import style
from simfl.report.saving import save
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "quorum.yaml"
QUORUM, SEEDS, TARGET = 12, 5, 0.85
SELECTED = (12, 16, 20, 24)
POLICIES = {
    "random": "{{name: random, k: {k}}}",
    "batch_partition, T=4": "{{name: batch_partition, k: {k}, T: 4}}",
    "half_partition, T=4": "{{name: half_partition, k: {k}, T: 4}}",
}
COLUMNS = ("time_to_target_s", "time_s", "test_accuracy", "privacy_semi_strong", "fairness_gap", "late", "failed",
           "mean_cardinality", "skipped", "never_summed")  # fmt: skip


def measures(result: Result) -> dict[str, float]:
    """What one run came to."""
    rounds, summed = result.rounds, (result.participation.sum(axis=0) > 0).sum()
    reached = rounds[rounds["test_accuracy"] >= TARGET]
    last = rounds.iloc[-1]
    return {
        "time_to_target_s": reached["time_s"].iloc[0] if len(reached) else float("nan"),
        "time_s": last["time_s"],
        "test_accuracy": rounds["test_accuracy"].dropna().iloc[-1],
        "privacy_semi_strong": rounds["privacy_semi_strong"].dropna().iloc[-1],
        "fairness_gap": last["fairness_gap"],
        "late": rounds["late"].mean(),
        "failed": rounds["failed"].mean(),
        "mean_cardinality": last["mean_cardinality"],
        "skipped": rounds["skipped"].sum(),
        "never_summed": result.scenario.clients - summed,
    }


def runs() -> dict[tuple[str, int, int], Scenario]:
    """The runs, by policy, k and seed."""
    return {
        (policy, k, seed): runner.scenario(SCENARIO, {"selection": text.format(k=k)}, seed)
        for policy, text in POLICIES.items()
        for k in SELECTED
        for seed in range(SEEDS)
    }


def tabulated(folders: dict[tuple[str, int, int], Path]) -> pandas.DataFrame:
    """One row a policy and k."""
    rows = []
    for policy in POLICIES:
        for k in SELECTED:
            found = [simfl.open(folder) for (*known, _), folder in folders.items() if known == [policy, k]]
            if not found:
                continue
            table = pandas.DataFrame([measures(result) for result in found])
            row = {"policy": policy, "selected": k, "share": round(QUORUM / k, 3), "seeds": len(table),
                   "reached": int(table["time_to_target_s"].notna().sum())}  # fmt: skip
            rows.append(row | runner.spread(table[list(COLUMNS)]))
    return pandas.DataFrame(rows)


def draw(table: pandas.DataFrame) -> None:
    """Writes the table and its picture: times, accuracy, fairness gap and guarantee against quorum over selected."""
    from matplotlib import pyplot

    panels = {
        "time_s": "simulated time of 150 rounds, s",
        "time_to_target_s": f"time to accuracy {TARGET}, s",
        "test_accuracy": "accuracy after 150 rounds",
        "fairness_gap": "fairness gap",
        "privacy_semi_strong": "semi-strong guarantee",
    }
    with style.settings():
        figure, axes = pyplot.subplots(1, len(panels), figsize=(13, 3.0))
        for axis, (name, label) in zip(axes, panels.items(), strict=True):
            for marker, (policy, rows) in zip("os^", table.groupby("policy", sort=False), strict=True):
                spread = rows[f"{name}_sd"]
                axis.errorbar(rows["share"], rows[name], spread, marker=marker, capsize=2, label=policy)
            axis.set(xlabel="quorum / selected", ylabel=label)
            axis.invert_xaxis()
            axis.set_ylim(bottom=None if name == "test_accuracy" else 0)
        axes[0].legend(frameon=False, fontsize=7)
        save(figure, table, HERE / "quorum.svg")


def main() -> None:
    options = runner.parser(__doc__).parse_args()
    folders = runner.run_all(runs(), options, seconds=5)
    seeds = runner.by_seed(("policy", "selected", "seed"), folders, lambda folder: measures(simfl.open(folder)))
    seeds.to_csv(HERE / "seeds.csv", index=False)
    draw(tabulated(folders))


if __name__ == "__main__":
    main()
