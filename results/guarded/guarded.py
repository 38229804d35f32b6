"""Guarded selection in the setting of paper 001: what it sums, what that gives away, and what it brings.

    SIMFL_DATA=FOLDER python results/guarded/guarded.py [--out results]

Runs scenarios/guarded.yaml (MNIST) under random selection and, for T = 3, 4, 6, 12, under batches, half-batches (T
even) and guarded selection with either family reserved, where random sets are proposed or, beside half-batches, any
half-batches: five seeds each, 90 runs of 20 s (finished ones are used again). Writes beside this file guarded.csv, one
row a policy and T with means and standard deviations over the seeds, curves.csv (accuracy and mean cardinality over
rounds and simulated time, mean over the seeds) and guarded.svg.
"""

from pathlib import Path

import numpy
import pandas

import simfl
from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.report import style
from simfl.report.saving import picture
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "guarded.yaml"
SEEDS, TARGET, UNITS = 5, 0.93, (3, 4, 6, 12)
ATTACKED = {
    "attacks": "[{name: least_squares, every: 20, coordinates: 500}]",
    "secagg": "{name: secagg, execute: cost_only}",
}
"""What the server makes of all sums by least squares; the sums must be all that it sees."""

NOTIONS = {"strong": "strong", "semi_strong": "semi_strong", "weak": "weak_lower"}


def policies() -> dict[tuple[str, int], dict[str, object]]:
    """The selection of each row of the table, by name and T."""
    chosen: dict[tuple[str, int], dict[str, object]] = {("random", 1): {"name": "random", "k": 12}}
    for T in UNITS:
        chosen["batch_partition", T] = {"name": "batch_partition", "k": 12, "T": T}
        if T % 2 == 0:
            chosen["half_partition", T] = {"name": "half_partition", "k": 12, "T": T}
        for reserve in ("batch", "half") if T % 2 == 0 else ("batch",):
            inner = {"name": "random", "k": 12}
            chosen[f"guarded, {reserve}", T] = {"name": "guarded", "inner": inner, "T": T, "reserve": reserve}
        if T % 2 == 0:
            halves = {"name": "batch_partition", "k": 12, "T": T // 2}
            more = {"reserve": "half", "tries": 20}
            chosen["guarded, any halves", T] = {"name": "guarded", "inner": halves, "T": T, **more}
    return chosen


def last_known(column: pandas.Series) -> float:
    """The last value; NaN if there is none, as where the attack never saw a sum in a round that was due."""
    return column.dropna().iloc[-1] if column.notna().any() else float("nan")


def measures(result: Result) -> dict[str, float]:
    """What one run came to."""
    rounds = result.rounds
    reached, last = rounds[rounds["test_accuracy"] >= TARGET], rounds.iloc[-1]
    return {
        "cardinality_100": rounds["mean_cardinality"].iloc[99],
        "cardinality_200": last["mean_cardinality"],
        "skipped": rounds["skipped"].sum(),
        "refused": rounds["refused_sum"].sum() if "refused_sum" in rounds else 0,
        "rank": int(numpy.linalg.matrix_rank(result.participation.toarray())),
        **{name: last_known(rounds[f"privacy_{column}"]) for name, column in NOTIONS.items()},
        "fairness_gap": last["fairness_gap"],
        "recovery_error": last_known(rounds["recovery_error"]),
        "test_accuracy": last["test_accuracy"],
        "time_s": last["time_s"],
        "rounds_to_target": reached["round"].iloc[0] + 1 if len(reached) else float("nan"),
        "time_to_target_s": reached["time_s"].iloc[0] if len(reached) else float("nan"),
    }


def runs() -> dict[tuple[str, int, int], Scenario]:
    """The runs, by policy, T and seed."""
    return {
        (*key, seed): runner.scenario(SCENARIO, {"selection": selection, **ATTACKED}, seed)
        for key, selection in policies().items()
        for seed in range(SEEDS)
    }


def tabulated(folders: dict[tuple[str, int, int], Path]) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """The table, and the curves."""
    rows, curves = [], []
    for name, T in policies():
        results = [simfl.open(folder) for (*known, _), folder in folders.items() if known == [name, T]]
        if not results:
            continue
        table = pandas.DataFrame([measures(result) for result in results])
        row = {"policy": name, "T": T, "seeds": len(table), "reached": int(table["time_to_target_s"].notna().sum())}
        row |= runner.spread(table)
        rows.append(row)
        shown = ["round", "time_s", "mean_cardinality", "test_accuracy"]
        mean = pandas.concat([each.rounds[shown] for each in results]).groupby("round", as_index=False).mean()
        mean = mean[mean["test_accuracy"].notna()].round(4)
        curves.append(mean.assign(policy=name, T=T))
    return pandas.DataFrame(rows), pandas.concat(curves)


def markdown(table: pandas.DataFrame) -> str:
    """The table of README.md."""
    head = "| policy | T | clients a round, first 100 | all 200 | rounds skipped | rank | strong | semi-strong | weak "
    lines = [f"{head}| fairness gap | recovery error | accuracy | time to 0.93, s |", "|---" * 13 + "|"]
    for row in table.itertuples():
        time = f"{row.time_to_target_s:.0f}" if row.reached == row.seeds else "not reached"
        lines.append(
            f"| {row.policy} | {row.T} | {row.cardinality_100:.2f} | {row.cardinality_200:.2f} "
            f"| {row.skipped:.1f} | {row.rank:.1f} | {row.strong:.1f} | {row.semi_strong:.1f} | {row.weak:.1f} "
            f"| {row.fairness_gap:.2f} | {row.recovery_error:.2f} | {row.test_accuracy:.3f} | {time} |"
        )
    return "\n".join(lines) + "\n"


def draw(curves: pandas.DataFrame) -> None:
    """For each T the mean cardinality so far and the accuracy, over rounds."""
    from matplotlib import pyplot

    with style.settings():
        figure, axes = pyplot.subplots(2, len(UNITS), figsize=(12, 5), sharex=True, sharey="row")
        for (above, below), T in zip(axes.T, UNITS, strict=True):
            for name in dict.fromkeys(curves["policy"]):
                curve = curves[(curves["policy"] == name) & curves["T"].isin([1, T] if name == "random" else [T])]
                for axis, column in ((above, "mean_cardinality"), (below, "test_accuracy")):
                    axis.plot(curve["round"] + 1, curve[column], label=name)
            above.set(title=f"T = {T}", ylim=(0, 12.5))
            below.set(xlabel="round", ylim=(0.6, 1.0))
        axes[0, 0].set(ylabel="clients a round, mean so far")
        axes[1, 0].set(ylabel="test accuracy")
        axes[0, 1].legend(frameon=False, fontsize=7)
        (HERE / "guarded.svg").write_bytes(picture(figure, "svg"))


def main() -> None:
    options = runner.parser(__doc__).parse_args()
    table, curves = tabulated(runner.run_all(runs(), options, seconds=20))
    table.to_csv(HERE / "guarded.csv", index=False, lineterminator="\n")
    curves.to_csv(HERE / "curves.csv", index=False, lineterminator="\n")
    draw(curves)


if __name__ == "__main__":
    main()
